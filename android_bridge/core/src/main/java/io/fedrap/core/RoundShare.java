package io.fedrap.core;

import java.nio.LongBuffer;
import java.security.SecureRandom;
import java.util.List;

/**
 * From local data to what a device sends, before it is sealed: train; then clip, quantise, encode, pad.
 */
final class RoundShare {
    final RowUpdate update; // as it was computed, before any clip
    final double loss; // stays on the device

    private RoundShare(RowUpdate update, double loss) {
        this.update = update;
        this.loss = loss;
    }

    /**
     * This device's share of a round.
     *
     * @param gram C'C of {@code common}
     * @param now in seconds since 1970
     * @throws FedRapException UNSUPPORTED_METHOD for a plan that is not of `solve`; BROKEN_MODEL,
     *     WRONG_SHAPE or NOT_FINITE where C gives no share: nothing must be sent then
     */
    static RoundShare compute(
            Plan plan,
            SharedMatrix common,
            double[] gram,
            History history,
            double now,
            LocalTrainer trainer,
            SecureRandom random) {
        RoundProblem problem = new RoundProblem(common, gram, history, plan.method());
        List<LocalShare> shares = trainer.solve(problem.problems);
        RowUpdate update = problem.join(shares);
        SequenceMethod part = plan.method().sequence;
        if (part != null) {
            SequenceRows rows = common.sequence;
            if (rows == null || rows.dim() != part.dim || rows.kernelCount() != part.kernels.count()) {
                throw FedRapException.broken("a plan with another sequence part than its release");
            }
            SequenceProblem asked =
                    new SequenceProblem(rows, history, part, count -> uniform(count, random));
            update = update.with(asked.parts(trainer.expect(asked)));
        }
        SolveMethod method = plan.method();
        if (method.halfDays > 0) {
            update = update.with(Trend.lately(history, now, method.halfDays, method.trendScale));
        }
        return new RoundShare(update, shares.get(0).loss);
    }

    /** The share as it is sealed for one server (PROTOCOL 4.3). */
    byte[] plaintext(Privacy rule, SecureRandom random) {
        RowUpdate clipped = update.clipped(rule);
        return clipped.encode(uniform(clipped.uniformCount(), random));
    }

    static double[] uniform(int count, SecureRandom random) {
        byte[] raw = new byte[8 * count];
        random.nextBytes(raw); // all at once: each call may go to the system
        return fractions(raw);
    }

    /** A number in [0, 1) out of 53 bits of every eight bytes. */
    static double[] fractions(byte[] raw) {
        LongBuffer whole = Bytes.wrap(raw).asLongBuffer();
        double[] out = new double[whole.remaining()];
        for (int i = 0; i < out.length; i++) {
            out[i] = (whole.get() >>> 11) * 0x1p-53;
        }
        return out;
    }
}
