package io.fedrap.core;

/** Coordinator to device: done. What was summed into releases stays there. */
final class Forgotten {
    /** Throws as {@link Fields#ofMessage}. */
    static Forgotten decode(byte[] raw) {
        Fields.ofMessage(raw, Fields.MAX_BYTES, "forgotten");
        return new Forgotten();
    }
}
