package io.fedrap.core;

import java.security.SecureRandom;
import java.util.List;

/**
 * From local data to what a device sends, before it is sealed: train, clip, quantise, encode, pad.
 */
final class RoundShare {
    final byte[] plaintext; // see PROTOCOL 4.3
    final double loss; // stays on the device

    private RoundShare(byte[] plaintext, double loss) {
        this.plaintext = plaintext;
        this.loss = loss;
    }

    /**
     * This device's share of a round.
     *
     * @param gram C'C of {@code common}
     * @throws FedRapException UNSUPPORTED_METHOD for a plan that is not of `solve`; BROKEN_MODEL,
     *     WRONG_SHAPE or NOT_FINITE where C gives no share: nothing must be sent then
     */
    static RoundShare compute(
            Plan plan,
            SharedMatrix common,
            double[] gram,
            History history,
            LocalTrainer trainer,
            SecureRandom random) {
        RoundProblem problem = new RoundProblem(common, gram, history, plan.method());
        List<LocalShare> shares = trainer.solve(problem.problems);
        RowUpdate update = problem.join(shares).clipped(plan.privacy);
        double[] uniform = new double[update.uniformCount()];
        for (int i = 0; i < uniform.length; i++) {
            uniform[i] = random.nextDouble();
        }
        return new RoundShare(update.encode(uniform), shares.get(0).loss);
    }
}
