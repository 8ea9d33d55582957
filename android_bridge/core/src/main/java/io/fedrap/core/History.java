package io.fedrap.core;

import java.util.LinkedHashMap;
import java.util.Map;

/** What one user did, newest first, in rows of C. An item may come more than once. */
final class History {
    final int[] rows;
    final double[] weights; // how much each interaction means; 1 is a plain view

    /** Throws WRONG_SHAPE for a weight that is not above 0 and at most 1e6. */
    History(int[] rows, double[] weights) {
        this.rows = rows;
        this.weights = weights;
        if (rows.length != weights.length) {
            throw FedRapException.wrongShape("a history needs one weight per interaction");
        }
        for (double weight : weights) {
            if (!(weight > 0 && weight <= 1e6)) { // also for NaN
                throw FedRapException.wrongShape(
                        "weights of interactions must lie above 0 and at most at 1e6");
            }
        }
    }

    /** What is derived from a history: its weights may have faded to 0. */
    private History(Map<Integer, Double> known) {
        rows = new int[known.size()];
        weights = new double[rows.length];
        int at = 0;
        for (Map.Entry<Integer, Double> one : known.entrySet()) {
            rows[at] = one.getKey();
            weights[at++] = one.getValue();
        }
    }

    /**
     * Distinct rows in order of their newest interaction.
     *
     * @param each a weight for each interaction
     * @param summed whether a row has the sum of its weights, or the largest of them
     */
    History distinct(double[] each, boolean summed) {
        Map<Integer, Double> known = new LinkedHashMap<>();
        for (int age = 0; age < rows.length; age++) {
            Double before = known.get(rows[age]);
            double soFar = before == null ? 0.0 : before;
            known.put(rows[age], summed ? soFar + each[age] : Math.max(soFar, each[age]));
        }
        return new History(known);
    }
}
