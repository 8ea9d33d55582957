package io.fedrap.core;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/**
 * Byte arrays: joined, as numbers, as text, hashed. Arrays of numbers are as messages carry them:
 * little-endian, without headers.
 */
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

    /** A label and fields, each after its length (u16), so that no two lists of fields are equal. */
    static byte[] framed(String label, byte[]... fields) {
        byte[] out = ascii(label);
        for (byte[] field : fields) {
            out = join(out, bigEndian(field.length, 2), field);
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

    /** The bytes of hex; throws a RuntimeException where it is none. */
    static byte[] unhex(String text) {
        byte[] raw = new byte[(text.length() + 1) / 2];
        for (int i = 0; i < raw.length; i++) { // half a byte at the end is none
            raw[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        }
        return raw;
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
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

    /** f32 each; bytes after the last whole number are left out. */
    static float[] floats(byte[] raw) {
        float[] out = new float[raw.length / 4];
        wrap(raw).asFloatBuffer().get(out);
        return out;
    }

    /** u32 each, as the bits of an int; bytes after the last whole number are left out. */
    static int[] integers(byte[] raw) {
        int[] out = new int[raw.length / 4];
        wrap(raw).asIntBuffer().get(out);
        return out;
    }

    static byte[] bytes(float[] numbers) {
        byte[] out = new byte[4 * numbers.length];
        wrap(out).asFloatBuffer().put(numbers);
        return out;
    }

    static byte[] bytes(int[] numbers) {
        byte[] out = new byte[4 * numbers.length];
        wrap(out).asIntBuffer().put(numbers);
        return out;
    }

    /** Numbers in these bytes, the lowest byte first. */
    static ByteBuffer wrap(byte[] raw) {
        return ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN);
    }
}
