package io.fedrap.core;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What one user did, newest first, in rows of C. An item may come more than once.
 *
 * <p>A weight above 0 speaks for an item, one below 0 against it: what the user disliked.
 */
final class History {
    final int[] rows;
    final double[] weights; // how much each interaction means; 1 is a plain view
    final double[] times; // seconds since 1970; null where they are not known

    History(int[] rows, double[] weights) {
        this(rows, weights, null);
    }

    /** Throws WRONG_SHAPE for a weight that is 0 or above 1e6 either way. */
    History(int[] rows, double[] weights, double[] times) {
        this.rows = rows;
        this.weights = weights;
        this.times = times;
        if (rows.length != weights.length || times != null && times.length != rows.length) {
            throw FedRapException.wrongShape(
                    "a history needs one weight, and one time, per interaction");
        }
        for (double weight : weights) {
            if (!(weight != 0 && Math.abs(weight) <= 1e6)) { // also for NaN
                throw FedRapException.wrongShape(
                        "weights of interactions are not 0, and at most 1e6 either way");
            }
        }
    }

    /** Without what speaks against items: all that rounds ever see of a history. */
    History liked() {
        boolean[] kept = new boolean[rows.length];
        for (int i = 0; i < rows.length; i++) {
            kept[i] = weights[i] > 0;
        }
        return only(kept);
    }

    /** The newest word on an item counts: what speaks the other way before it is left out. */
    History settled() {
        Map<Integer, Boolean> verdict = new java.util.HashMap<>();
        boolean[] kept = new boolean[rows.length];
        for (int i = 0; i < rows.length; i++) {
            Boolean newest = verdict.get(rows[i]);
            if (newest == null) {
                newest = weights[i] > 0;
                verdict.put(rows[i], newest);
            }
            kept[i] = newest == weights[i] > 0;
        }
        return only(kept);
    }

    private History only(boolean[] kept) {
        int count = 0;
        for (boolean one : kept) {
            count += one ? 1 : 0;
        }
        if (count == rows.length) {
            return this;
        }
        int[] left = new int[count];
        double[] theirs = new double[count];
        double[] when = times == null ? null : new double[count];
        int at = 0;
        for (int i = 0; i < rows.length; i++) {
            if (kept[i]) {
                left[at] = rows[i];
                if (when != null) {
                    when[at] = times[i];
                }
                theirs[at++] = weights[i];
            }
        }
        return new History(left, theirs, when);
    }

    /** What is derived from a history: its weights may have faded to 0. */
    private History(Map<Integer, Double> known) {
        rows = new int[known.size()];
        weights = new double[rows.length];
        times = null;
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
