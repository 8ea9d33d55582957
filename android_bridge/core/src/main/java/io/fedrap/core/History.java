package io.fedrap.core;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.DoubleBinaryOperator;

/** What one user did, newest first, in rows of C. An item may come more than once. */
final class History {
    final int[] rows;
    final double[] weights; // how much each interaction means; 1 is a plain tap

    /** Throws WRONG_SHAPE for a weight that is not above 0 and at most 1e6. */
    History(int[] rows, double[] weights) {
        if (rows.length != weights.length) {
            throw wrong("a history needs one weight per interaction");
        }
        for (double weight : weights) {
            if (!(weight > 0 && weight <= 1e6)) { // also for NaN
                throw wrong("weights of interactions must lie above 0 and at most at 1e6");
            }
        }
        this.rows = rows;
        this.weights = weights;
    }

    /**
     * Distinct rows in order of their newest interaction, each with its weights, one of each
     * interaction, put together from 0 on.
     */
    Distinct distinct(double[] each, DoubleBinaryOperator how) {
        Map<Integer, Double> found = new LinkedHashMap<>();
        for (int age = 0; age < rows.length; age++) {
            Double known = found.get(rows[age]);
            found.put(rows[age], how.applyAsDouble(known == null ? 0.0 : known, each[age]));
        }
        int[] items = new int[found.size()];
        double[] merged = new double[items.length];
        int at = 0;
        for (Map.Entry<Integer, Double> one : found.entrySet()) {
            items[at] = one.getKey();
            merged[at++] = one.getValue();
        }
        return new Distinct(items, merged);
    }

    /** Distinct rows and a weight for each. */
    static final class Distinct {
        final int[] rows;
        final double[] weights;

        Distinct(int[] rows, double[] weights) {
            this.rows = rows;
            this.weights = weights;
        }
    }

    private static FedRapException wrong(String why) {
        return new FedRapException(FedRapException.Kind.WRONG_SHAPE, why);
    }
}
