package io.fedrap.core;

import java.security.GeneralSecurityException;
import java.util.Arrays;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * What turns keys into blocks and numbers: SHA-256, fixed-key AES, AES-CTR; and numbers modulo
 * p = 2^31 - 1.
 *
 * <p>block(s, i) = AES_K(σ(s⊕i)) ⊕ σ(s⊕i) with σ(lo‖hi) = hi‖(hi⊕lo) (XofFixedKeyAes128 of the VDAF
 * draft; Guo, Katz, Wang and Yu 2020). A seed is two longs, little-endian.
 */
final class Xof {
    static final long P = (1L << 31) - 1;

    private final Cipher cipher;

    /** block of one key. */
    Xof(byte[] key) {
        cipher = cipher("AES/ECB/NoPadding", key, null);
    }

    private static Cipher cipher(String name, byte[] key, IvParameterSpec start) {
        try {
            Cipher made = Cipher.getInstance(name);
            made.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(key, "AES"), start);
            return made;
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("every platform has " + name, error);
        }
    }

    private static byte[] done(Cipher cipher, byte[] input) {
        try {
            return cipher.doFinal(input);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("whole blocks are encrypted", error);
        }
    }

    /** 16 bytes that label and parts decide; each part with its length, so that none runs over. */
    static byte[] kdf(String label, byte[]... parts) {
        return Arrays.copyOf(Bytes.sha256(Bytes.framed("fedrap/2 " + label, parts)), 16);
    }

    /** AES of each block of two longs. */
    long[] encrypt(long[] plain) {
        byte[] raw = new byte[8 * plain.length];
        Bytes.wrap(raw).asLongBuffer().put(plain);
        long[] out = new long[plain.length];
        Bytes.wrap(done(cipher, raw)).asLongBuffer().get(out);
        return out;
    }

    /** block(s, 0) … block(s, count - 1) of each seed, one seed after the other. */
    long[] expand(long[] seeds, int count) {
        long[] shuffled = new long[seeds.length * count];
        for (int at = 0, seed = 0; seed < seeds.length; seed += 2) {
            for (int i = 0; i < count; i++) {
                shuffled[at++] = seeds[seed + 1];
                shuffled[at++] = seeds[seed] ^ i ^ seeds[seed + 1];
            }
        }
        long[] out = encrypt(shuffled);
        for (int i = 0; i < out.length; i++) {
            out[i] ^= shuffled[i];
        }
        return out;
    }

    /** AES-128 in counter mode from 0 on. */
    static byte[] stream(byte[] key, int size) {
        return done(cipher("AES/CTR/NoPadding", key, new IvParameterSpec(new byte[16])), new byte[size]);
    }

    static long[] longs(byte[] raw) {
        long[] out = new long[raw.length / 8];
        Bytes.wrap(raw).asLongBuffer().get(out);
        return out;
    }

    /** Uniform numbers of the field: the stream's words & p, where p itself is skipped. */
    static long[] numbers(byte[] key, int count) {
        long[] out = new long[count];
        for (int asked = count + 8; ; asked *= 2) {
            int found = 0;
            for (int word : Bytes.integers(stream(key, 4 * asked))) {
                long number = word & P;
                if (number != P && found < count) {
                    out[found++] = number;
                }
            }
            if (found == count) {
                return out;
            }
        }
    }

    static long mul(long left, long right) {
        return left * right % P;
    }

    static long sub(long left, long right) {
        return left >= right ? left - right : left - right + P;
    }

    /** A whole number of either sign in [0, p). */
    static long field(long signed) {
        return Math.floorMod(signed, P);
    }

    static long power(long base, long exponent) {
        long result = 1;
        for (long left = exponent, square = base; left > 0; left >>= 1, square = mul(square, square)) {
            result = (left & 1) == 1 ? mul(result, square) : result;
        }
        return result;
    }

    static byte[] words(long[] numbers) {
        int[] out = new int[numbers.length];
        for (int i = 0; i < out.length; i++) {
            out[i] = (int) numbers[i];
        }
        return Bytes.bytes(out);
    }
}
