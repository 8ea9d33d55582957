package io.fedrap.core;

/** The device's side of a round of `solve`; {@link RoundProblem} has the formulas. */
final class SolveMethod {
    private static final double TINY = Double.MIN_VALUE; // what is at least this is above 0
    private static final double LARGEST = 1e6;

    final int dim; // k
    final double alpha; // weight of an interaction
    final double w0; // weight of every item of the catalogue as "not chosen"
    final double ridge; // lambda
    final double order; // phi, weight of what came next
    final int prefixes; // T, most of them in one round
    final double beta; // recency within a prefix, as in Scoring
    final double gamma;
    final double tau;
    final SequenceMethod sequence; // the second part, learnt in the same rounds; null: off
    final double halfDays; // after which a touch counts half in the trend; 0: it is off
    final double trendScale; // of a touch of just now, before the clip

    /** Throws MALFORMED_MESSAGE, also for fields that are not known (PROTOCOL 5.1). */
    SolveMethod(Fields f) {
        f.only("name", "dim", "alpha", "w0", "ridge", "order", "prefixes", "beta", "gamma", "tau",
                "sequence", "trend");
        dim = (int) f.integer("dim", 1, 512, 32);
        alpha = f.number("alpha", TINY, LARGEST, 5.0);
        w0 = f.number("w0", 0, LARGEST, 1.0);
        ridge = f.number("ridge", TINY, LARGEST, 10.0);
        order = f.number("order", 0, 1, 0.5);
        prefixes = (int) f.integer("prefixes", 0, 5000, 100);
        beta = f.number("beta", 0, LARGEST, 10.0);
        gamma = f.number("gamma", 0, LARGEST, 0.1);
        tau = f.number("tau", TINY, LARGEST, 3.0);
        sequence =
                f.asMap().containsKey("sequence") ? new SequenceMethod(f.inner("sequence")) : null;
        Fields lately = f.asMap().containsKey("trend") ? f.inner("trend") : null;
        if (lately != null) {
            lately.only("half_days", "scale");
        }
        halfDays = lately == null ? 0.0 : lately.number("half_days", 0.01, 3650, 7.0);
        trendScale = lately == null ? 0.0 : lately.number("scale", TINY, LARGEST, 1.0);
    }
}
