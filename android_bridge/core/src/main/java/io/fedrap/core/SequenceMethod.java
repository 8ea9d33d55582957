package io.fedrap.core;

/**
 * The device's side of the sequence part: softmax over all items. {@link SequenceProblem} has the
 * formulas.
 */
final class SequenceMethod {
    static final int MOST_WEIGHTS = 1 << 22; // of targets x kernels x inputs: 32 MB on the device
    private static final double TINY = Double.MIN_VALUE; // what is at least this is above 0
    private static final double LARGEST = 1e6;

    final int dim; // k
    final int targets; // Q, most of them in one round
    final int decoys; // D, of each target
    final double dropout; // share of a target's inputs
    final TimeKernels kernels;
    final double scale; // all of it is multiplied by this before the clip

    /** Throws MALFORMED_MESSAGE, also for fields that are not known (PROTOCOL 5.1). */
    SequenceMethod(Fields f) {
        f.only("dim", "targets", "decoys", "longest", "dropout", "ordered", "taus", "scale");
        dim = (int) f.integer("dim", 1, 512, 64);
        targets = (int) f.integer("targets", 1, 5000, 32);
        decoys = (int) f.integer("decoys", 1, 16, 1);
        dropout = f.number("dropout", 0, Math.nextDown(1.0), 0.2);
        kernels = new TimeKernels(f);
        scale = f.number("scale", TINY, LARGEST, 1.0);
        if ((long) targets * kernels.count() * kernels.longest > MOST_WEIGHTS) {
            throw f.refused("targets", "x kernels x longest lies above " + MOST_WEIGHTS);
        }
    }
}
