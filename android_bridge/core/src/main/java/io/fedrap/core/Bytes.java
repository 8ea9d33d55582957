package io.fedrap.core;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** Byte arrays: joined, as numbers, as hex, hashed. */
final class Bytes {
    private Bytes() {}

    static byte[] join(byte[]... parts) {
        int size = 0;
        for (byte[] part : parts) {
            size += part.length;
        }
        byte[] out = new byte[size];
        int at = 0;
        for (byte[] part : parts) {
            System.arraycopy(part, 0, out, at, part.length);
            at += part.length;
        }
        return out;
    }

    /** The lowest {@code width} bytes of a number, the highest first. */
    static byte[] bigEndian(long value, int width) {
        byte[] out = new byte[width];
        for (int i = 0; i < width; i++) {
            out[i] = (byte) (value >>> 8 * (width - 1 - i));
        }
        return out;
    }

    /** The number in {@code width} bytes from {@code at}, the highest first. */
    static long fromBigEndian(byte[] raw, int at, int width) {
        long value = 0;
        for (int i = 0; i < width; i++) {
            value = value << 8 | raw[at + i] & 0xff;
        }
        return value;
    }

    static String hex(byte[] raw) {
        StringBuilder text = new StringBuilder(2 * raw.length);
        for (byte one : raw) {
            text.append(Character.forDigit(one >> 4 & 15, 16)).append(Character.forDigit(one & 15, 16));
        }
        return text.toString();
    }

    static byte[] sha256(byte[]... parts) {
        MessageDigest digest = newSha256();
        for (byte[] part : parts) {
            digest.update(part);
        }
        return digest.digest();
    }

    static MessageDigest newSha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("this platform has no SHA-256", error);
        }
    }
}
