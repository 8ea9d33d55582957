package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * AES-256-GCM around each record of a store: a random nonce of 12 bytes, ciphertext, tag.
 *
 * <p>The place of a record is part of its seal, so that records cannot be swapped or left out.
 */
final class Sealer {
    static final int OVERHEAD = 12 + 16;

    private final byte[] key;
    private final byte[] storeName;
    private final SecureRandom random = new SecureRandom();

    Sealer(byte[] key, byte[] storeName) {
        if (key.length != KeyProvider.KEY_BYTES) {
            throw new FedRapException(
                    Kind.STORE_LOCKED,
                    "a store key has 32 bytes, this one has " + key.length);
        }
        this.key = key.clone();
        this.storeName = storeName;
    }

    byte[] seal(String place, byte[] plaintext) {
        byte[] nonce = new byte[12];
        random.nextBytes(nonce);
        try {
            return Bytes.join(nonce, cipher(Cipher.ENCRYPT_MODE, place, nonce).doFinal(plaintext));
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("this platform cannot seal with AES-GCM", error);
        }
    }

    /** What was sealed for this place; null when it was not, or was changed since. */
    byte[] open(String place, byte[] raw, int from, int size) {
        if (size < OVERHEAD) {
            return null;
        }
        byte[] nonce = java.util.Arrays.copyOfRange(raw, from, from + 12);
        try {
            return cipher(Cipher.DECRYPT_MODE, place, nonce).doFinal(raw, from + 12, size - 12);
        } catch (GeneralSecurityException error) {
            return null;
        }
    }

    /** AES-GCM with a tag of 16 bytes. */
    static Cipher gcm(int mode, byte[] key, byte[] nonce) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(mode, new SecretKeySpec(key, "AES"), new GCMParameterSpec(128, nonce));
        return cipher;
    }

    private Cipher cipher(int mode, String place, byte[] nonce) throws GeneralSecurityException {
        Cipher cipher = gcm(mode, key, nonce);
        cipher.updateAAD(Bytes.join(storeName, place.getBytes(StandardCharsets.UTF_8)));
        return cipher;
    }
}
