package io.fedrap.core;

/** The answer to a {@link SequenceProblem}; all of it stays on the device. */
public final class SequenceAnswer {
    final double[] rows; // (T·k)
    final int[] decoys; // (T·D)
    final double[] surprise; // (T)

    /**
     * An answer; the arrays must not be changed afterwards.
     *
     * @param rows sum_j p_tj C_j of each query, one after the other: (T·k)
     * @param decoys D items drawn from p_t for each, one query after the other: (T·D)
     * @param surprise -log p_t of the target: (T)
     */
    public SequenceAnswer(double[] rows, int[] decoys, double[] surprise) {
        this.rows = rows;
        this.decoys = decoys;
        this.surprise = surprise;
    }

    @Override
    public String toString() {
        return "SequenceAnswer(...)"; // what a user did belongs in no log
    }
}
