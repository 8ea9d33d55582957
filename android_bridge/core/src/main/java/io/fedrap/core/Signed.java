package io.fedrap.core;

/** Coordinator to device: an offer, a receipt or a question, as the task's authority signed it. */
final class Signed {
    final byte[] body; // the bytes of that message
    final byte[] signature;

    Signed(Fields fields) {
        body = fields.bytes("body", 0, 8192);
        signature = fields.bytes("signature", Signer.SIGNATURE_BYTES, Signer.SIGNATURE_BYTES);
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Signed decode(byte[] raw) {
        return new Signed(Fields.ofMessage(raw, Fields.MAX_BYTES, "signed"));
    }
}
