package io.fedrap.core;

import java.util.Arrays;

/**
 * What one device sends: rows g_j of the delta of C, the packed Gram matrix of x x' and the other parts
 * of the plan, clipped as one.
 */
final class RowUpdate {
    final int[] rows; // (n) ascending, distinct; u32
    final double[] values; // (n·k)
    final double[] gram; // (k(k+1)/2)
    final int dim; // k
    final int fits; // 1: within the clip as it was computed, -1: above it, 0: nobody asked
    final RowPart[] parts; // inputs, outputs and kernels of the sequence part, lately of the trend

    RowUpdate(int[] rows, double[] values, double[] gram, int dim, int fits, RowPart... parts) {
        this.rows = rows;
        this.values = values;
        this.gram = gram;
        this.dim = dim;
        this.fits = fits;
        this.parts = parts;
    }

    /** This update with more parts behind those that it has. */
    RowUpdate with(RowPart... others) {
        RowPart[] all = Arrays.copyOf(parts, parts.length + others.length);
        System.arraycopy(others, 0, all, parts.length, others.length);
        return new RowUpdate(rows, values, gram, dim, fits, all);
    }

    /** The upper half of a (k·k), row by row: (k(k+1)/2). */
    static double[] packTriangle(double[] square, int dim) {
        double[] out = new double[dim * (dim + 1) / 2];
        int at = 0;
        for (int row = 0; row < dim; row++) {
            for (int column = row; column < dim; column++) {
                out[at++] = square[row * dim + column];
            }
        }
        return out;
    }

    /** Euclidean norm of all of it. */
    double norm() {
        double square =
                Dense.dot(values, 0, values, 0, values.length)
                        + Dense.dot(gram, 0, gram, 0, gram.length);
        for (RowPart part : parts) {
            square += Dense.dot(part.values, 0, part.values, 0, part.values.length);
        }
        return Math.sqrt(square);
    }

    /** What a device sends: rows clipped, then the whole, with its bit where the clip adapts. */
    RowUpdate clipped(Privacy rule) {
        RowUpdate update = Double.isNaN(rule.rowClip) ? this : clipRows(rule.rowClip);
        int bit = rule.adapt == null ? 0 : update.norm() <= rule.clip ? 1 : -1;
        return update.clipToNorm(rule.clip, bit);
    }

    /** Each row scaled down to that norm, where it is longer. */
    RowUpdate clipRows(double limit) {
        RowPart[] clipped = new RowPart[parts.length];
        for (int i = 0; i < parts.length; i++) {
            clipped[i] = parts[i].with(clipRows(parts[i].values, parts[i].width, limit));
        }
        return new RowUpdate(rows, clipRows(values, dim, limit), gram, dim, fits, clipped);
    }

    private static double[] clipRows(double[] numbers, int width, double limit) {
        double[] out = numbers.clone();
        for (int at = 0; at < out.length; at += width) {
            double norm = Math.sqrt(Dense.dot(out, at, out, at, width));
            if (norm > limit) {
                for (int i = at; i < at + width; i++) {
                    out[i] *= limit / norm;
                }
            }
        }
        return out;
    }

    private RowUpdate clipToNorm(double limit, int bit) {
        double norm = norm();
        double factor = norm <= limit ? 1.0 : limit / norm;
        RowPart[] scaled = new RowPart[parts.length];
        for (int i = 0; i < parts.length; i++) {
            scaled[i] = parts[i].with(times(parts[i].values, factor));
        }
        return new RowUpdate(rows, times(values, factor), times(gram, factor), dim, bit, scaled);
    }

    private static double[] times(double[] numbers, double factor) {
        double[] out = numbers.clone();
        for (int i = 0; i < out.length; i++) {
            out[i] *= factor;
        }
        return out;
    }

    /** How many random numbers {@link #encode} needs for unbiased rounding. */
    int uniformCount() {
        int count = values.length + foldedRows(dim) * dim;
        for (RowPart part : parts) {
            count += part.values.length;
        }
        return count;
    }

    /** Rows of k numbers that hold the packed Gram matrix. */
    static int foldedRows(int dim) {
        return (dim + 2) / 2;
    }

    /**
     * The padded plaintext of this update (PROTOCOL 4.3).
     *
     * @param uniform numbers in [0, 1), {@link #uniformCount} of them
     * @throws FedRapException NOT_FINITE where a number is not finite or above 1e30
     */
    byte[] encode(double[] uniform) {
        double[] folded = new double[foldedRows(dim) * dim];
        System.arraycopy(gram, 0, folded, 0, gram.length);
        int at = values.length;
        QuantizedRows main = QuantizedRows.of(values, dim, uniform);
        QuantizedRows corner =
                QuantizedRows.of(folded, dim, Arrays.copyOfRange(uniform, at, at + folded.length));
        at += folded.length;
        QuantizedRows[] others = new QuantizedRows[parts.length];
        for (int i = 0; i < parts.length; i++) {
            double[] numbers = parts[i].values;
            double[] mine = Arrays.copyOfRange(uniform, at, at + numbers.length);
            others[i] = QuantizedRows.of(numbers, parts[i].width, mine);
            at += numbers.length;
        }
        return pad(Requests.share(rows, main, corner, fits, parts, others));
    }

    /** Length, body, and zeros up to the bucket. */
    static byte[] pad(byte[] body) {
        byte[] out = new byte[bucket(4 + body.length)];
        Bytes.wrap(out).putInt(body.length);
        System.arraycopy(body, 0, out, 4, body.length);
        return out;
    }

    /** The size that a message of so many bytes is padded to: 512, 768, 1024, 1536, 2048, … */
    static int bucket(int needed) {
        int bucket = 512;
        while (bucket < needed) {
            if (bucket + bucket / 2 >= needed) {
                return bucket + bucket / 2;
            }
            bucket *= 2;
        }
        return bucket;
    }
}
