package io.fedrap.core;

import java.util.Map;

/** Inside a signed certificate: this key is that device's, until then. */
final class Certificate {
    final byte[] task;
    final byte[] device;
    final byte[] publicKey;
    final String level; // of the attestation
    final double issuedAt; // seconds since 1970
    final double expiresAt;

    Certificate(
            byte[] task,
            byte[] device,
            byte[] publicKey,
            String level,
            double issuedAt,
            double expiresAt) {
        this.task = task;
        this.device = device;
        this.publicKey = publicKey;
        this.level = level;
        this.issuedAt = issuedAt;
        this.expiresAt = expiresAt;
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Certificate decode(byte[] raw) {
        Fields fields = Fields.ofMessage(raw, Fields.MAX_BYTES, "certificate");
        return new Certificate(
                fields.id16("task"),
                fields.id16("device"),
                fields.point("public_key"),
                fields.text("level", 1, 40),
                fields.number("issued_at", 0, 1e12),
                fields.number("expires_at", 0, 1e12));
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("certificate");
        map.put("task", task);
        map.put("device", device);
        map.put("public_key", publicKey);
        map.put("level", level);
        map.put("issued_at", issuedAt);
        map.put("expires_at", expiresAt);
        return MsgPack.encode(map);
    }
}
