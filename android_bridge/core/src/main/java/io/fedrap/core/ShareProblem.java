package io.fedrap.core;

/**
 * One least-squares problem of a round: x of
 *
 * <pre>(G + sum_j a_j C_j C_j') x = sum_j a_j C_j,   G = w0·C'C + lambda·I</pre>
 *
 * <p>Immutable; problems of one round share their arrays.
 */
public final class ShareProblem {
    final double[] own; // rows of C, of which this problem's start at row `from`
    final int from;
    final double[] weights; // (n) a_j
    private final double[] base; // (k·k) G
    private final int dim; // k

    ShareProblem(double[] own, int from, double[] weights, double[] base, int dim) {
        this.own = own;
        this.from = from;
        this.weights = weights;
        this.base = base;
        this.dim = dim;
    }

    /** n, how many items there are. */
    public int count() {
        return weights.length;
    }

    /** k, the length of a row. */
    public int dim() {
        return dim;
    }

    /** a_j of item {@code place}. */
    public double weight(int place) {
        return weights[place];
    }

    /** Entry {@code column} of C_j of item {@code place}. */
    public double own(int place, int column) {
        return own[(from + place) * dim + column];
    }

    /** G, row after row: (k·k). The same array for all problems of a round; not to be changed. */
    public double[] base() {
        return base;
    }

    @Override
    public String toString() {
        return "ShareProblem(...)"; // what a user did belongs in no log
    }
}
