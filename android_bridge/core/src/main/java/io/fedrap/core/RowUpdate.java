package io.fedrap.core;

/**
 * What one device sends: rows g_j of the delta of C and the packed Gram matrix of x x', clipped as one.
 */
final class RowUpdate {
    final int[] rows; // (n) ascending, distinct; u32
    final double[] values; // (n·k)
    final double[] gram; // (k(k+1)/2)
    final int dim; // k
    final int fits; // 1: within the clip as it was computed, -1: above it, 0: nobody asked

    RowUpdate(int[] rows, double[] values, double[] gram, int dim, int fits) {
        this.rows = rows;
        this.values = values;
        this.gram = gram;
        this.dim = dim;
        this.fits = fits;
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

    /** Euclidean norm of rows and packed Gram matrix. */
    double norm() {
        return Math.sqrt(
                Dense.dot(values, 0, values, 0, values.length)
                        + Dense.dot(gram, 0, gram, 0, gram.length));
    }

    /** What a device sends: rows clipped, then the whole, with its bit where the clip adapts. */
    RowUpdate clipped(Privacy rule) {
        RowUpdate update = Double.isNaN(rule.rowClip) ? this : clipRows(rule.rowClip);
        int bit = rule.adapt == null ? 0 : update.norm() <= rule.clip ? 1 : -1;
        return update.clipToNorm(rule.clip, bit);
    }

    private RowUpdate clipRows(double limit) {
        double[] out = values.clone();
        for (int at = 0; at < out.length; at += dim) {
            double norm = Math.sqrt(Dense.dot(out, at, out, at, dim));
            if (norm > limit) {
                for (int i = at; i < at + dim; i++) {
                    out[i] *= limit / norm;
                }
            }
        }
        return new RowUpdate(rows, out, gram, dim, fits);
    }

    private RowUpdate clipToNorm(double limit, int bit) {
        double norm = norm();
        double factor = norm <= limit ? 1.0 : limit / norm;
        double[] all = values.clone();
        double[] corner = gram.clone();
        for (int i = 0; i < all.length; i++) {
            all[i] *= factor;
        }
        for (int i = 0; i < corner.length; i++) {
            corner[i] *= factor;
        }
        return new RowUpdate(rows, all, corner, dim, bit);
    }

    /** How many random numbers {@link #encode} needs for unbiased rounding. */
    int uniformCount() {
        return values.length + foldedRows(dim) * dim;
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
        double[] rest = new double[folded.length];
        System.arraycopy(uniform, values.length, rest, 0, rest.length);
        QuantizedRows main = QuantizedRows.of(values, dim, uniform);
        QuantizedRows corner = QuantizedRows.of(folded, dim, rest);
        return pad(Requests.share(rows, main, corner, fits));
    }

    /** Length, body, and zeros up to the bucket. */
    static byte[] pad(byte[] body) {
        byte[] out = new byte[bucket(4 + body.length)];
        LittleEndian.wrap(out).putInt(body.length);
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
