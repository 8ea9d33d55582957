package io.fedrap.core;

/** Coordinator to device: who it is from now on, in which task, and the proof of it. */
final class Enrolled {
    final byte[] device;
    final byte[] task;
    final byte[] certificate; // empty: this coordinator issues none
    final byte[] authority; // who signs certificates

    private Enrolled(Fields fields) {
        device = fields.id16("device");
        task = fields.id16("task");
        certificate = fields.bytes("certificate", 0, 1024, new byte[0]);
        authority = fields.bytes("authority", 0, 65, new byte[0]);
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Enrolled decode(byte[] raw) {
        return new Enrolled(Fields.ofMessage(raw, Fields.MAX_BYTES, "enrolled"));
    }
}
