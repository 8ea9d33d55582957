package io.fedrap.core;

import java.util.LinkedHashMap;
import java.util.Map;

/** What enrolment gave this device. It survives restarts; a new one is a new device. */
final class Credentials {
    final byte[] device;
    final byte[] task;
    final byte[] secret; // of the signing key
    final byte[] publicKey;
    final byte[] certificate; // as the authority signed it; empty without one
    final byte[] authority; // whose certificates this device takes
    final double renewAt; // seconds since 1970 by this device's clock

    Credentials(
            byte[] device,
            byte[] task,
            byte[] secret,
            byte[] publicKey,
            byte[] certificate,
            byte[] authority,
            double renewAt) {
        this.device = device;
        this.task = task;
        this.secret = secret;
        this.publicKey = publicKey;
        this.certificate = certificate;
        this.authority = authority;
        this.renewAt = renewAt;
    }

    /** Those that were kept; null for null. */
    static Credentials decode(byte[] raw) {
        if (raw == null) {
            return null;
        }
        Fields f = Fields.ofValue(raw, Fields.MAX_BYTES);
        return new Credentials(
                f.id16("device"), f.id16("task"), f.bytes("secret", 32, 32), f.point("public_key"),
                f.bytes("certificate", 0, 1024), f.bytes("authority", 0, 65),
                f.number("renew_at", 0, Double.POSITIVE_INFINITY));
    }

    byte[] encode() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("device", device);
        map.put("task", task);
        map.put("secret", secret);
        map.put("public_key", publicKey);
        map.put("certificate", certificate);
        map.put("authority", authority);
        map.put("renew_at", renewAt);
        return MsgPack.encode(map);
    }
}
