package io.fedrap.core;

/** Inside {@code signed}: the update is stored. */
final class Accepted {
    final byte[] round;
    final byte[] digest; // SHA-256 of the update's bytes

    private Accepted(Fields fields) {
        round = fields.id16("round");
        digest = fields.digest("digest");
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Accepted decode(byte[] raw) {
        return new Accepted(Fields.ofMessage(raw, Fields.MAX_BYTES, "accepted"));
    }
}
