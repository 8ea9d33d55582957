package io.fedrap.core;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Arrays of numbers as messages carry them: little-endian, without headers. */
final class LittleEndian {
    private LittleEndian() {}

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

    static ByteBuffer wrap(byte[] raw) {
        return ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN);
    }
}
