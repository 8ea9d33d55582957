package io.fedrap.core;

import java.nio.LongBuffer;
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
        byte[] uniform = new byte[8 * update.uniformCount()];
        random.nextBytes(uniform); // all at once: each call may go to the system
        return new RoundShare(update.encode(fractions(uniform)), shares.get(0).loss);
    }

    /** A number in [0, 1) out of 53 bits of every eight bytes. */
    static double[] fractions(byte[] raw) {
        LongBuffer whole = LittleEndian.wrap(raw).asLongBuffer();
        double[] out = new double[whole.remaining()];
        for (int i = 0; i < out.length; i++) {
            out[i] = (whole.get() >>> 11) * 0x1p-53;
        }
        return out;
    }
}
