package io.fedrap.core;

import java.security.GeneralSecurityException;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** HKDF with SHA-256 (RFC 5869); platforms of API level 26 have only the HMAC that it is made of. */
final class Hkdf {
    static final int HASH_BYTES = 32;

    private Hkdf() {}

    /** A key out of uneven secret bytes; an empty salt counts as zeros. */
    static byte[] extract(byte[] salt, byte[] secret) {
        return hmac(salt, secret);
    }

    /** {@code length} bytes, at most 255 hashes, that only {@code key} and {@code info} decide. */
    static byte[] expand(byte[] key, byte[] info, int length) {
        if (length > 255 * HASH_BYTES) {
            throw new IllegalArgumentException("HKDF gives at most 8160 bytes");
        }
        byte[] out = new byte[0];
        byte[] block = new byte[0];
        for (int count = 1; out.length < length; count++) {
            block = hmac(key, Bytes.join(block, info, new byte[] {(byte) count}));
            out = Bytes.join(out, block);
        }
        return Arrays.copyOf(out, length);
    }

    /** HMAC-SHA-256. */
    static byte[] hmac(byte[] key, byte[] message) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            // An empty key is a key of one zero, but for the class that holds it.
            byte[] used = key.length == 0 ? new byte[1] : key;
            mac.init(new SecretKeySpec(used, "HmacSHA256"));
            return mac.doFinal(message);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("this platform has no HmacSHA256", error);
        }
    }
}
