package io.fedrap.core;

import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.util.Arrays;
import javax.crypto.Cipher;

/**
 * Sealing to the aggregator: HPKE (RFC 9180), base mode, single shot, no aad (clause 4.1).
 *
 * <p>DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. A device only seals.
 */
final class Hpke {
    static final int OVERHEAD = 65 + 16; // encapsulated point and tag

    private static final byte[] KEM = Bytes.join(Bytes.ascii("KEM"), new byte[] {0, 16});
    private static final byte[] SUITE = Bytes.join(Bytes.ascii("HPKE"), new byte[] {0, 16, 0, 1, 0, 1});
    private static final byte[] VERSION = Bytes.ascii("HPKE-v1");
    private static final byte[] NONE = new byte[0];

    private Hpke() {}

    /**
     * Encapsulated point, ciphertext and tag.
     *
     * @throws FedRapException MALFORMED_MESSAGE: the recipient's key is not a point of P-256.
     */
    static byte[] seal(byte[] recipient, byte[] info, byte[] plaintext) {
        return seal(P256.generate(), recipient, info, plaintext);
    }

    /** With this ephemeral key, which must be used once. */
    static byte[] seal(KeyPair ephemeral, byte[] recipient, byte[] info, byte[] plaintext) {
        byte[] point = P256.point(ephemeral.getPublic());
        byte[] agreed = P256.agree(ephemeral.getPrivate(), P256.publicKey(recipient));
        byte[] shared = shared(agreed, point, recipient);
        try {
            Cipher cipher = cipher(Cipher.ENCRYPT_MODE, shared, info);
            return Bytes.join(point, cipher.doFinal(plaintext));
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("this platform cannot seal with AES-GCM", error);
        }
    }

    /** ExtractAndExpand of RFC 9180, 4.1. */
    static byte[] shared(byte[] agreed, byte[] point, byte[] recipient) {
        byte[] key = extract(KEM, NONE, "eae_prk", agreed);
        return expand(KEM, key, "shared_secret", Bytes.join(point, recipient), Hkdf.HASH_BYTES);
    }

    /** KeySchedule of RFC 9180, 5.1, for the first and only message. */
    static Cipher cipher(int mode, byte[] shared, byte[] info) throws GeneralSecurityException {
        byte[] context =
                Bytes.join(
                        new byte[] {0},
                        extract(SUITE, NONE, "psk_id_hash", NONE),
                        extract(SUITE, NONE, "info_hash", info));
        byte[] secret = extract(SUITE, shared, "secret", NONE);
        byte[] key = expand(SUITE, secret, "key", context, 16);
        byte[] nonce = expand(SUITE, secret, "base_nonce", context, 12);
        Cipher cipher = Sealer.gcm(mode, key, nonce);
        Arrays.fill(key, (byte) 0);
        return cipher;
    }

    private static byte[] extract(byte[] suite, byte[] salt, String label, byte[] secret) {
        return Hkdf.extract(salt, Bytes.join(VERSION, suite, Bytes.ascii(label), secret));
    }

    private static byte[] expand(byte[] suite, byte[] key, String label, byte[] info, int length) {
        byte[] whole = Bytes.join(Bytes.bigEndian(length, 2), VERSION, suite, Bytes.ascii(label), info);
        return Hkdf.expand(key, whole, length);
    }

    /**
     * An update that only the holder of the offer's sealing key can read: everything outside the
     * ciphertext is bound into it (4.2).
     *
     * @throws FedRapException MALFORMED_MESSAGE: that key is no point of P-256.
     */
    static byte[] update(Offer offer, byte[] device, byte[] plaintext) {
        byte[] plan = Bytes.sha256(offer.plan);
        byte[] info =
                updateInfo(offer.task, offer.round, offer.step, offer.model, plan, device, offer.sealId);
        return Requests.update(offer, plan, device, seal(offer.sealKey, info, plaintext));
    }

    static byte[] updateInfo(
            byte[] task, byte[] round, long step, byte[] model, byte[] plan, byte[] device, byte[] key) {
        return Bytes.framed(
                "fedrap/1 update", task, round, Bytes.bigEndian(step, 4), model, plan, device, key);
    }
}
