package io.fedrap.core;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * What a device adds to a round of `solve`: its history as a whole, and what came next in it.
 *
 * <p>With x from the whole history, flat, and x_t from the items before item j_t, weighed by recency, n
 * items and T prefixes, the newest ones, a device sends
 *
 * <pre>
 * g_j  = (1 - phi)·a_j(x·C_j - 1)·x + phi·(n/T)·sum_{t: j_t = j} a_j(x_t·C_j - 1)·x_t
 * x x' = (1 - phi)·x x'             + phi·(1/T)·sum_t x_t x_t'
 * </pre>
 *
 * <p>Every prefix is one least-squares problem, so every trainer can solve it.
 */
final class RoundProblem {
    /** What a trainer must solve; {@link #join} wants the answers in this order. */
    final List<ShareProblem> problems;

    private final int[] rows; // (n) ascending
    private final int[] targets; // (T) place of j_t in `rows`
    private final double share; // phi
    private final int dim;

    /**
     * This device's problems of a round.
     *
     * @param gram C'C of {@code common}
     * @throws FedRapException WRONG_SHAPE for a row that C does not have, or a plan of another k
     */
    RoundProblem(SharedMatrix common, double[] gram, History whole, SolveMethod method) {
        History history = whole.liked(); // what speaks against an item stays on the device
        if (method.dim != common.dim()) {
            throw FedRapException.wrongShape(
                    "a plan of k " + method.dim + " for a C of k " + common.dim());
        }
        dim = method.dim;
        // An item counts once, with its largest weight.
        History newest = history.distinct(history.weights, false);
        int n = newest.rows.length;
        rows = newest.rows.clone();
        Arrays.sort(rows);
        int[] places = new int[n]; // of the newest, the next, … in `rows`
        double[] weights = new double[n]; // a_j, in order of `rows`
        for (int age = 0; age < n; age++) {
            places[age] = Arrays.binarySearch(rows, newest.rows[age]);
            weights[places[age]] = method.alpha * newest.weights[age];
        }
        double[] base = Dense.baseSystem(gram, dim, method.w0, method.ridge);
        List<ShareProblem> all = new ArrayList<>();
        all.add(new ShareProblem(common.take(rows), 0, weights, base, dim));
        int count = method.order > 0 ? Math.max(0, Math.min(method.prefixes, n - 1)) : 0;
        share = count > 0 ? method.order : 0.0;
        targets = Arrays.copyOf(places, count);
        // Newest first, so that all prefixes are ends of the same rows.
        double[] own = count > 0 ? common.take(newest.rows) : new double[0];
        for (int place = 0; place < count; place++) {
            double[] faded = new double[n - place - 1];
            for (int age = 0; age < faded.length; age++) {
                double fade = method.gamma + method.beta * StrictMath.exp(-age / method.tau);
                faded[age] = method.alpha * fade * newest.weights[place + 1 + age];
            }
            all.add(new ShareProblem(own, place + 1, faded, base, dim));
        }
        problems = Collections.unmodifiableList(all);
    }

    /** One update out of the answers to {@link #problems}. */
    RowUpdate join(List<LocalShare> shares) {
        LocalShare whole = shares.get(0);
        int count = targets.length;
        double[] values = scaled(whole.gradients, 1.0 - share);
        double[] square = new double[dim * dim];
        Dense.addSquare(square, whole.user, 0, dim, 1.0 - share);
        ShareProblem all = problems.get(0);
        for (int t = 0; t < count; t++) {
            double[] user = shares.get(t + 1).user; // x_t
            int target = targets[t];
            double predicted = Dense.dot(all.own, target * dim, user, 0, dim);
            double missed = all.weights[target] * (predicted - 1.0);
            double factor = share * rows.length / count * missed;
            for (int i = 0; i < dim; i++) {
                values[target * dim + i] += factor * user[i];
            }
            Dense.addSquare(square, user, 0, dim, share / count);
        }
        return new RowUpdate(rows, values, RowUpdate.packTriangle(square, dim), dim, 0);
    }

    private static double[] scaled(double[] numbers, double factor) {
        double[] out = new double[numbers.length];
        for (int i = 0; i < out.length; i++) {
            out[i] = factor * numbers[i];
        }
        return out;
    }
}
