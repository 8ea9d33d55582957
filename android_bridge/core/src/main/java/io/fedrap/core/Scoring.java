package io.fedrap.core;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How u and D follow from the history; travels with a release. {@link UserRepresentation} has the formulas.
 *
 * <p>A release of the method {@code paper} is read, so that it can be refused with a clear word, but
 * nothing is computed with it here.
 */
final class Scoring {
    private static final double TINY = Double.MIN_VALUE; // what is at least this is above 0
    private static final double LARGEST = 1e6;

    final double alpha; // weight of an interaction against the unseen items
    final double w0; // weight of every item of the catalogue as "not chosen"
    final double beta; // extra weight of the newest interaction
    final double gamma; // weight that never fades
    final double tau; // how many interactions the extra weight lasts
    final double ridge; // lambda, keeps u small and the solve regular
    final double rho; // how much an item without a row in D takes from its neighbours
    final double power; // p, how similar two items must be for that
    final double sigma; // how far D is trusted with a single interaction
    final int recent; // newest items that own a row in D
    final SequenceScoring sequence; // how the second part is added; null: there is none
    final double trend; // how much counts what was touched lately; 0: not at all
    private final long paperSeed; // of the method `paper`; -1 for `solve`

    private Scoring(Fields f, long paperSeed) {
        this.paperSeed = paperSeed;
        alpha = f.number("alpha", TINY, LARGEST, 5.0);
        w0 = f.number("w0", 0, LARGEST, 0.5);
        beta = f.number("beta", 0, LARGEST, 10.0);
        gamma = f.number("gamma", 0, LARGEST, 0.1);
        tau = f.number("tau", TINY, LARGEST, 2.0);
        ridge = f.number("ridge", TINY, LARGEST, 60.0);
        rho = f.number("rho", 0, LARGEST, 0.3);
        power = f.number("power", TINY, LARGEST, 4.0);
        sigma = f.number("sigma", TINY, LARGEST, 1.0);
        recent = (int) f.integer("recent", 0, 5000, 50);
        boolean both = paperSeed < 0 && f.asMap().containsKey("sequence");
        sequence = both ? new SequenceScoring(f.inner("sequence")) : null;
        trend = f.number("trend", 0, LARGEST, 0);
    }

    /** Scoring inside a message, where it has a name; throws MALFORMED_MESSAGE. */
    static Scoring from(Fields fields) {
        String name = fields.text("name", 0, Integer.MAX_VALUE);
        if (name.equals("paper")) {
            return new Scoring(
                    fields.only("name", "seed"), fields.integer("seed", 0, 1L << 31, 0));
        }
        if (!name.equals("solve")) {
            throw fields.refused("name", "is no method that is known here");
        }
        return ofSolve(fields);
    }

    /** Scoring of `solve`, where the name may be absent; throws MALFORMED_MESSAGE. */
    static Scoring ofSolve(Fields fields) {
        fields.only(
                "name", "alpha", "w0", "beta", "gamma", "tau", "ridge", "rho", "power", "sigma",
                "recent", "sequence", "trend");
        if (!fields.text("name", 0, Integer.MAX_VALUE, "solve").equals("solve")) {
            throw fields.refused("name", "is not solve");
        }
        return new Scoring(fields, -1);
    }

    /** Whether this library can recommend with it. */
    boolean isSolve() {
        return paperSeed < 0;
    }

    /**
     * This scoring, of `solve`.
     *
     * @throws FedRapException UNSUPPORTED_METHOD where the release is of another method
     */
    Scoring requireSolve() {
        if (!isSolve()) {
            throw FedRapException.otherMethod("this release is of the method paper");
        }
        return this;
    }

    Map<String, Object> toMap() {
        Map<String, Object> map = new LinkedHashMap<>();
        if (!isSolve()) {
            map.put("name", "paper");
            map.put("seed", paperSeed);
            return map;
        }
        map.put("name", "solve");
        map.put("alpha", alpha);
        map.put("w0", w0);
        map.put("beta", beta);
        map.put("gamma", gamma);
        map.put("tau", tau);
        map.put("ridge", ridge);
        map.put("rho", rho);
        map.put("power", power);
        map.put("sigma", sigma);
        map.put("recent", recent);
        if (sequence != null) {
            map.put("sequence", sequence.toMap());
        }
        if (trend != 0) {
            map.put("trend", trend);
        }
        return map;
    }
}
