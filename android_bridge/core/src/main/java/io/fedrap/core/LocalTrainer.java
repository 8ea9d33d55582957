package io.fedrap.core;

import java.util.List;

/**
 * Solves the least-squares problems of a round.
 *
 * <p>Every trainer agrees with the float64 reference of the protocol within 2e-6 + 1e-5·abs, changes
 * nothing it is given, gives the same result for the same input, and may be used from several threads.
 */
public interface LocalTrainer {
    /** A word for {@code status()}, such as {@code jvm}. */
    String name();

    /**
     * The answers, in the order of the problems, which all have the same k.
     *
     * @throws FedRapException BROKEN_MODEL where C gives no finite user vector
     */
    List<LocalShare> solve(List<ShareProblem> problems);

    /**
     * Of the sequence part what takes m·k·Q products: a softmax over all items for each query. Plain
     * Java in float64, unless a trainer has something faster.
     */
    default SequenceAnswer expect(SequenceProblem problem) {
        return SequenceSoftmax.of(problem, null);
    }
}
