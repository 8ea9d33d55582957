package io.fedrap.core;

/** Device to coordinator: this device is no more; forget its key. */
final class Forget {
    byte[] encode() {
        return MsgPack.encode(Fields.start("forget"));
    }
}
