package io.fedrap.core;

import java.security.KeyPair;
import java.util.LinkedHashMap;
import java.util.Map;

/** A signing key that no coordinator has confirmed yet. */
final class EnrollingKey {
    final byte[] secret;
    final byte[] point; // of its public key; the JCA does not compute one from the secret

    private EnrollingKey(byte[] secret, byte[] point) {
        this.secret = secret;
        this.point = point;
    }

    static EnrollingKey generate() {
        KeyPair pair = P256.generate();
        return new EnrollingKey(P256.secret(pair.getPrivate()), P256.point(pair.getPublic()));
    }

    static EnrollingKey decode(byte[] raw) {
        Fields f = Fields.ofValue(raw, Fields.MAX_BYTES);
        return new EnrollingKey(f.bytes("secret", 32, 32), f.point("public_key"));
    }

    byte[] encode() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("secret", secret);
        map.put("public_key", point);
        return MsgPack.encode(map);
    }
}
