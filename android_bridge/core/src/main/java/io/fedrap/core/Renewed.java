package io.fedrap.core;

/** Coordinator to device: the new certificate. */
final class Renewed {
    final byte[] certificate;

    private Renewed(Fields fields) {
        certificate = fields.bytes("certificate", 0, 1024);
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Renewed decode(byte[] raw) {
        return new Renewed(Fields.ofMessage(raw, Fields.MAX_BYTES, "renewed"));
    }
}
