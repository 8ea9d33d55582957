package io.fedrap.core;

import java.util.Arrays;

/**
 * One user under one release of `solve`: u from the history, D from what u can't explain.
 *
 * <pre>
 * a_l = alpha·w_l·(gamma + beta·exp(-l/tau)), l = 0 the newest; repeats of an item are added up
 * M = w0·C'C + sum_l |a_l| C_l C_l' + lambda·I
 * u = M^-1 · sum_l |a_l| t_l C_l
 * d = (kappa_HH + sigma·diag(max |a| / |a_l|))^-1 · (t - C_H u),   kappa = max(0, cos)^p
 * z_j = u·C_j + d_j                          for an item with a row in D
 * z_j = u·C_j + rho·sum_l kappa(j,l)·d_l     for any other
 * </pre>
 *
 * <p>t_l is 1 for what speaks for an item, a_l &gt; 0, and 0 for what speaks against it: w_l &lt; 0 gives
 * a_l = alpha·{@link #AGAINST}·w_l, which neither fades nor makes anything else older.
 *
 * <p>u is derived, never stored, so a new user is served from the first interaction on.
 */
final class UserRepresentation {
    static final double AGAINST = 0.3; // as in Python, where it was measured

    final int[] items; // (n) distinct items of the history, newest first
    final double[] weights; // (n) a_l
    final double[] user; // (k) u
    final double[] offsets; // (p) d, of the first p of the items: they own a row of D
    final Scoring scoring;
    private final int dim;
    private final double[] own; // (n·k) rows of C of the items
    private final double[] lengths; // (p) their norms
    private final double[] matrix; // (k·k) M

    /**
     * The representation of a user.
     *
     * @param gram C'C of {@code common}
     * @throws FedRapException WRONG_SHAPE for a row that C does not have, BROKEN_MODEL where C gives
     *     no finite solution, UNSUPPORTED_METHOD for scoring of another method
     */
    UserRepresentation(SharedMatrix common, double[] gram, History history, Scoring scoring) {
        this.scoring = scoring.requireSolve();
        dim = common.dim();
        History known = history.distinct(recency(history.weights), true);
        items = known.rows;
        weights = known.weights;
        own = common.take(items);
        matrix = Dense.baseSystem(gram, dim, scoring.w0, scoring.ridge);
        double[] right = new double[dim];
        for (int l = 0; l < items.length; l++) {
            Dense.addSquare(matrix, own, l * dim, dim, Math.abs(weights[l]));
            for (int i = 0; i < dim && weights[l] > 0; i++) {
                right[i] += weights[l] * own[l * dim + i];
            }
        }
        Dense.mirror(matrix, dim);
        user = Dense.solve(matrix, right);
        lengths = new double[Math.min(items.length, scoring.recent)];
        for (int l = 0; l < lengths.length; l++) {
            lengths[l] = norm(own, l * dim);
        }
        offsets = offsets();
    }

    private double[] recency(double[] plain) {
        double[] faded = new double[plain.length];
        int age = 0; // how many newer ones speak for an item
        for (int l = 0; l < faded.length; l++) {
            double fade = AGAINST;
            if (plain[l] > 0) {
                fade = scoring.gamma + scoring.beta * StrictMath.exp(-age++ / scoring.tau);
            }
            faded[l] = scoring.alpha * plain[l] * fade;
        }
        return faded;
    }

    /** d: what the shared view leaves unexplained of the user's own items. */
    private double[] offsets() {
        int p = lengths.length;
        double most = Double.MIN_NORMAL;
        for (int l = 0; l < p; l++) {
            most = Math.max(most, Math.abs(weights[l]));
        }
        // With |a_l|/max |a| times both sides: no division where a weight faded to 0.
        double[] kernel = new double[p * p];
        double[] right = new double[p];
        for (int l = 0; l < p; l++) {
            double trust = Math.abs(weights[l]) / most;
            double target = weights[l] > 0 ? 1.0 : 0.0;
            for (int other = 0; other < p; other++) {
                kernel[l * p + other] = trust * similarity(own, l * dim, lengths[l], other);
            }
            kernel[l * p + l] += scoring.sigma;
            right[l] = trust * (target - Dense.dot(own, l * dim, user, 0, dim));
        }
        return Dense.solve(kernel, right);
    }

    /** kappa between a row of numbers and item l of D; a row of zeros is like nothing. */
    private double similarity(double[] rows, int at, double length, int l) {
        double scale = length * lengths[l];
        if (!(scale > 0)) {
            return 0.0;
        }
        double cosine = Dense.dot(rows, at, own, l * dim, dim) / scale;
        return cosine > 0 ? raised(Math.min(1.0, cosine), scoring.power) : 0.0;
    }

    /** x^p. A list asks for it up to 50,000 times, so a small whole p is a few products. */
    static double raised(double x, double p) {
        if (p > 16 || p != Math.rint(p)) {
            return StrictMath.pow(x, p);
        }
        double product = 1.0;
        for (int i = (int) p; i > 0; i--) {
            product *= x;
        }
        return product;
    }

    /** u·C_j of a row of C that starts at {@code at}. */
    double shared(double[] rows, int at) {
        return Dense.dot(rows, at, user, 0, dim);
    }

    /** The personal part of an item's score, split over the items that own a row of D: (p). */
    double[] personalParts(int item, double[] rows, int at) {
        double[] parts = new double[offsets.length];
        for (int l = 0; l < parts.length; l++) {
            if (items[l] == item) { // all of it in its own row
                Arrays.fill(parts, 0.0);
                parts[l] = offsets[l];
                return parts;
            }
        }
        double length = norm(rows, at);
        for (int l = 0; l < parts.length; l++) {
            parts[l] = scoring.rho * similarity(rows, at, length, l) * offsets[l];
        }
        return parts;
    }

    /** u·C_j split exactly over the history: |a_l| t_l·C_j'M^-1 C_l: (n). */
    double[] sharedParts(double[] row) {
        double[] turned = Dense.solve(matrix, row); // M is symmetric
        double[] parts = new double[items.length];
        for (int l = 0; l < parts.length; l++) {
            parts[l] = Math.max(0.0, weights[l]) * Dense.dot(turned, 0, own, l * dim, dim);
        }
        return parts;
    }

    private double norm(double[] rows, int at) {
        return Math.sqrt(Dense.dot(rows, at, rows, at, dim));
    }
}
