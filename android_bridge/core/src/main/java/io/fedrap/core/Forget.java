package io.fedrap.core;

/** Device to coordinator: this device is no more; forget its key. */
final class Forget {

    /** Throws as {@link Fields#ofMessage}. */
    static Forget decode(byte[] raw) {
        Fields.ofMessage(raw, Fields.MAX_BYTES, "forget");
        return new Forget();
    }

    byte[] encode() {
        return MsgPack.encode(Fields.start("forget"));
    }
}
