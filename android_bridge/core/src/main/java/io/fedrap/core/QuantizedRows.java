package io.fedrap.core;

import java.util.Arrays;

/**
 * Rows of k int8 steps, each row with its own step width. Bit-exact on every platform (PROTOCOL 6).
 */
final class QuantizedRows {
    private static final int STEPS = 127; // int8 without -128: a row and its negative are alike
    private static final float LARGEST = 1e30f; // beyond it a float scale times 127 could overflow

    final byte[] values; // (m·k), row after row
    final float[] scales; // (m)
    final int dim; // k

    QuantizedRows(byte[] values, float[] scales, int dim) {
        this.values = values;
        this.scales = scales;
        this.dim = dim;
    }

    /**
     * Rounds each row to int8 steps of max|row|/127. Without {@code uniform} to the nearest, halves to
     * even; with it (numbers in [0, 1), one for each of {@code rows}) at random and unbiased. A row whose
     * step would be below 2^-126 becomes zeros.
     *
     * @param rows (m·k), row after row
     * @throws FedRapException NOT_FINITE where a value is NaN, infinite or above 1e30
     */
    static QuantizedRows of(double[] rows, int dim, double[] uniform) {
        int count = rows.length / dim;
        byte[] values = new byte[rows.length];
        float[] scales = new float[count];
        for (int row = 0; row < count; row++) {
            int start = row * dim;
            float scale = peak(rows, start, start + dim) / STEPS;
            if (scale < Float.MIN_NORMAL) { // a subnormal step is too coarse, and not portable
                continue;
            }
            scales[row] = scale;
            for (int i = start; i < start + dim; i++) {
                double step = (double) (float) rows[i] / scale;
                double whole = uniform == null ? Math.rint(step) : Math.floor(step + uniform[i]);
                values[i] = (byte) Math.max(-STEPS, Math.min(STEPS, whole));
            }
        }
        return new QuantizedRows(values, scales, dim);
    }

    private static float peak(double[] rows, int start, int stop) {
        float peak = 0f;
        for (int i = start; i < stop; i++) {
            float size = Math.abs((float) rows[i]);
            if (!(size <= LARGEST)) { // also for NaN
                throw new FedRapException(
                        FedRapException.Kind.NOT_FINITE,
                        "a row to quantise is not finite or above 1e30");
            }
            peak = Math.max(peak, size);
        }
        return peak;
    }

    /**
     * Entries of which many are zeros, from a bitmap of the others and those (6.3). Sizes are checked
     * before memory is taken.
     *
     * @throws FedRapException BROKEN_MODEL where they do not fit each other
     */
    static byte[] unpackEntries(byte[] bitmap, byte[] known, long entries) {
        if (entries > MAX_ENTRIES || bitmap.length != (entries + 7) / 8) {
            throw FedRapException.broken("a bitmap of another size than its rows");
        }
        byte[] out = new byte[(int) entries];
        int used = 0;
        for (int at = 0; at < bitmap.length; at++) {
            for (int bits = bitmap[at] & 255; bits != 0; bits &= bits - 1) {
                int entry = 8 * at + Integer.numberOfTrailingZeros(bits);
                if (entry >= entries || used == known.length) {
                    throw FedRapException.broken("a bitmap of more entries than came with it");
                }
                if (known[used] == 0) {
                    throw FedRapException.broken("a value of zero where a bitmap says that there is another");
                }
                out[entry] = known[used++];
            }
        }
        if (used != known.length) {
            throw FedRapException.broken("a bitmap of fewer entries than came with it");
        }
        return out;
    }

    /** Of one message: a bitmap of zeros is an eighth of what it says. */
    private static final long MAX_ENTRIES = 256L * 1024 * 1024;

    /** The rows of a whole release; throws BROKEN_MODEL where sizes disagree. */
    static QuantizedRows whole(long size, int dim, byte[] scales, byte[] bitmap, byte[] values) {
        if (scales.length != 4 * size) {
            throw FedRapException.broken("a release whose arrays do not have the size that it states");
        }
        byte[] steps = unpackEntries(bitmap, values, size * dim);
        return new QuantizedRows(steps, Bytes.floats(scales), dim);
    }

    /**
     * These rows with those of a delta in their places, {@code size} of them.
     *
     * @throws FedRapException BROKEN_MODEL where arrays do not fit, or a row is out of order or missing
     */
    QuantizedRows patched(long size, byte[] changed, byte[] scales, byte[] bitmap, byte[] values) {
        if (changed.length % 4 != 0 || scales.length != changed.length) {
            throw FedRapException.broken("a delta whose arrays do not fit each other");
        }
        int[] rows = Bytes.integers(changed);
        // Each row past the old ones must come, so that a stated size costs bytes that were sent.
        long news = 0;
        long before = -1;
        for (int row : rows) {
            long place = Integer.toUnsignedLong(row);
            if (place <= before || place >= size) {
                throw FedRapException.broken("a delta whose rows are out of range or out of order");
            }
            news += place >= size() ? 1 : 0;
            before = place;
        }
        if (news != size - size()) {
            throw FedRapException.broken("a delta that leaves out rows");
        }
        byte[] steps = unpackEntries(bitmap, values, (long) rows.length * dim);
        float[] widths = Bytes.floats(scales);
        QuantizedRows grown = grown((int) size);
        for (int i = 0; i < rows.length; i++) {
            grown.scales[rows[i]] = widths[i];
            System.arraycopy(steps, i * dim, grown.values, rows[i] * dim, dim);
        }
        return grown;
    }

    int size() {
        return scales.length;
    }

    /** These rows with room for {@code size} of them, the new ones zeros. */
    QuantizedRows grown(int size) {
        return new QuantizedRows(
                Arrays.copyOf(values, size * dim), Arrays.copyOf(scales, size), dim);
    }

    /** The float32 of one row, as float64, into {@code out} from {@code at} on. */
    void read(int row, double[] out, int at) {
        float scale = scales[row];
        for (int i = 0, from = row * dim; i < dim; i++) {
            out[at + i] = values[from + i] * scale; // rounded to float32 first, as everywhere
        }
    }
}
