package io.fedrap.core;

import java.util.Map;

/** Coordinator to device: the new certificate. */
final class Renewed {
    final byte[] certificate;

    Renewed(byte[] certificate) {
        this.certificate = certificate;
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Renewed decode(byte[] raw) {
        Fields fields = Fields.ofMessage(raw, Fields.MAX_BYTES, "renewed");
        return new Renewed(
                fields.bytes("certificate", 0, 1024));
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("renewed");
        map.put("certificate", certificate);
        return MsgPack.encode(map);
    }
}
