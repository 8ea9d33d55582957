package io.fedrap.core;

import java.util.Arrays;
import java.util.Map;

/**
 * From scores to a list: the best n items, and why each is there.
 *
 * <p>In two steps, because D's part costs m·p·k: the shared view picks the best {@link #SHORTLIST}, then
 * D re-ranks those.
 */
final class Ranking {
    static final int SHORTLIST = 1000;

    final int[] rows; // (n) best first
    final double[] shared; // (n)
    final double[] personal; // (n)
    final double[] sequence; // (n) zeros without a sequence part
    final double[] popularity; // (n) as well
    final double[] trend; // (n) zeros where nothing is known of late
    final double[] added; // (n) what the app adds for the moment; the score is the sum of all six
    private final double[][] parts;

    private Ranking(int[] rows, double[]... parts) {
        this.rows = rows;
        this.parts = parts;
        shared = parts[0];
        personal = parts[1];
        sequence = parts[2];
        popularity = parts[3];
        trend = parts[4];
        added = parts[5];
    }

    /** Some of them, in this order. */
    Ranking take(int[] places) {
        int[] theirs = new int[places.length];
        double[][] some = new double[parts.length][places.length];
        for (int i = 0; i < places.length; i++) {
            theirs[i] = rows[places[i]];
            for (int part = 0; part < parts.length; part++) {
                some[part][i] = parts[part][places[i]];
            }
        }
        return new Ranking(theirs, some);
    }

    /** The score of one of them. */
    double score(int place) {
        return shared[place] + personal[place] + (sequence[place] + popularity[place]) + trend[place]
                + added[place];
    }

    /** The n best of the allowed rows; {@code part} is null without a sequence part. */
    static Ranking of(
            SharedMatrix common,
            UserRepresentation representation,
            SequenceUser part,
            int n,
            boolean[] allowed) {
        double weight = representation.scoring.trend;
        return of(
                common, representation, part, n, common.scores(representation.user, weight, part, allowed));
    }

    /** The n best by these scores without D, which has a word on the best {@link #SHORTLIST}. */
    static Ranking of(
            SharedMatrix common, UserRepresentation representation, SequenceUser part, int n, float[] scores) {
        double weight = representation.scoring.trend;
        int[] shortlist = TopN.best(scores, Math.max(n, SHORTLIST));
        double share = part == null ? 1.0 : part.scoring.solve;
        double[] theirs = common.take(shortlist);
        double[][] found = new double[6][shortlist.length]; // as the fields above
        TopN top = new TopN(Math.min(n, shortlist.length));
        for (int i = 0; i < shortlist.length; i++) {
            int at = i * common.dim();
            int row = shortlist[i];
            found[0][i] = share * representation.shared(theirs, at); // float64: reasons add up to it
            found[1][i] = share * sum(representation.personalParts(row, theirs, at));
            if (part != null) {
                double[] other = common.sequence.take(new int[] {row});
                double product = Dense.dot(part.query, 0, other, 0, other.length);
                found[2][i] = part.scoring.sequence * product;
                found[3][i] = popularity(common, part, row);
            }
            found[4][i] = common.trend == null ? 0.0 : weight * common.trend.of(row);
            top.offer(i, found[0][i] + found[1][i] + (found[2][i] + found[3][i]) + found[4][i]);
        }
        return new Ranking(shortlist, found).take(top.rows());
    }

    /**
     * The n best where the app adds something to the scores of some rows: those are scored one by one; of
     * all others the best do.
     */
    static Ranking of(
            SharedMatrix common,
            UserRepresentation mine,
            SequenceUser part,
            int n,
            boolean[] allowed,
            Map<Integer, Double> boost) {
        if (boost.isEmpty()) {
            return of(common, mine, part, n, allowed);
        }
        boolean[] others = allowed.clone();
        boolean[] raised = new boolean[allowed.length];
        for (int row : boost.keySet()) {
            others[row] = false;
            raised[row] = true;
        }
        Ranking plain = of(common, mine, part, n, others);
        Ranking with = of(common, mine, part, boost.size(), raised);
        int first = plain.rows.length;
        int[] rows = Arrays.copyOf(plain.rows, first + with.rows.length);
        System.arraycopy(with.rows, 0, rows, first, with.rows.length);
        double[][] parts = new double[6][];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = Arrays.copyOf(plain.parts[i], rows.length);
            System.arraycopy(with.parts[i], 0, parts[i], first, with.rows.length);
        }
        Ranking both = new Ranking(rows, parts);
        TopN top = new TopN(Math.min(n, rows.length));
        for (int i = 0; i < rows.length; i++) {
            both.added[i] = i < first ? 0.0 : boost.get(rows[i]);
            top.offer(i, both.score(i));
        }
        return both.take(top.rows());
    }

    /** n of these in the order of maximal marginal relevance (Carbonell and Goldstein 1998). */
    Ranking diversified(SharedMatrix common, int n, double diversity) {
        double[] scores = new double[rows.length];
        for (int i = 0; i < scores.length; i++) {
            scores[i] = score(i);
        }
        return take(diversified(common.take(rows), common.dim(), scores, n, diversity));
    }

    /**
     * Places of n items: next = argmax_j (1 - delta)·r_j - delta·max_{i chosen} cos(C_i, C_j), r being
     * the scores brought to [0, 1]. Equal ones in the order given.
     */
    static int[] diversified(double[] rows, int dim, double[] scores, int n, double diversity) {
        double lowest = Double.POSITIVE_INFINITY;
        double highest = Double.NEGATIVE_INFINITY;
        double[] norms = new double[scores.length];
        for (int j = 0; j < scores.length; j++) {
            lowest = Math.min(lowest, scores[j]);
            highest = Math.max(highest, scores[j]);
            norms[j] = Math.sqrt(Dense.dot(rows, j * dim, rows, j * dim, dim));
        }
        double span = highest > lowest ? highest - lowest : 1.0;
        double[] near = new double[scores.length];
        boolean[] taken = new boolean[scores.length];
        int[] chosen = new int[Math.min(n, scores.length)];
        for (int place = 0; place < chosen.length; place++) {
            int best = -1;
            double most = Double.NEGATIVE_INFINITY;
            for (int j = 0; j < scores.length; j++) {
                double worth = (1 - diversity) * (scores[j] - lowest) / span - diversity * near[j];
                if (!taken[j] && (best < 0 || worth > most)) {
                    best = j;
                    most = worth;
                }
            }
            taken[best] = true;
            chosen[place] = best;
            for (int j = 0; j < scores.length; j++) {
                double scale = norms[j] * norms[best];
                double cosine =
                        scale > 0 ? Dense.dot(rows, j * dim, rows, best * dim, dim) / scale : 0.0;
                near[j] = Math.max(near[j], cosine);
            }
        }
        return chosen;
    }

    private static double popularity(SharedMatrix common, SequenceUser part, int row) {
        return part.scoring.sequence * part.scoring.kappa * common.sequence.bias[row];
    }

    /**
     * Why an item has its score: a shared, a personal and a sequence number for each item of the
     * history, newest first, which add up to it but for popularity and trend. Here {@code rows} are
     * those items.
     */
    static Ranking explain(
            SharedMatrix common, UserRepresentation representation, SequenceUser part, int row) {
        double[] theirs = common.take(new int[] {row});
        int n = representation.items.length;
        double share = part == null ? 1.0 : part.scoring.solve;
        double[] shared = representation.sharedParts(theirs);
        double[] owed = representation.personalParts(row, theirs, 0);
        double[] personal = new double[n];
        double[] sequence = new double[n];
        double[] other = part == null ? null : common.sequence.take(new int[] {row});
        for (int i = 0; i < n; i++) {
            shared[i] *= share;
            personal[i] = i < owed.length ? share * owed[i] : 0.0;
            double[] piece = part == null ? null : part.pieces.get(representation.items[i]);
            if (piece != null) { // items that are too old for the window have none
                sequence[i] = part.scoring.sequence * Dense.dot(piece, 0, other, 0, other.length);
            }
        }
        double[] popularity = {part == null ? 0.0 : popularity(common, part, row)};
        double[] trend = {
            common.trend == null ? 0.0 : representation.scoring.trend * common.trend.of(row)
        };
        return new Ranking(
                representation.items, shared, personal, sequence, popularity, trend, new double[n]);
    }

    /**
     * The n allowed rows most like one in the shared view; {@code shared} has their cosine with it. A
     * row of zeros is like nothing.
     */
    static Ranking similar(SharedMatrix common, int row, int n, boolean[] allowed) {
        double length = common.norm(row);
        double[] mine = common.take(new int[] {row});
        double[] theirs = new double[common.dim()];
        double[] cosines = new double[common.size()];
        TopN top = new TopN(Math.min(n, common.size()));
        for (int other = 0; length > 0 && other < common.size(); other++) {
            double scale = length * common.norm(other);
            if (allowed[other] && other != row && scale > 0) {
                common.items.read(other, theirs, 0);
                double cosine = Dense.dot(mine, 0, theirs, 0, theirs.length) / scale;
                cosines[other] = Math.max(-1.0, Math.min(1.0, cosine));
                top.offer(other, cosines[other]);
            }
        }
        int[] best = top.rows();
        double[] found = new double[best.length];
        for (int i = 0; i < best.length; i++) {
            found[i] = cosines[best[i]];
        }
        double[] none = new double[best.length];
        return new Ranking(best, found, none, none, none, none, none);
    }

    private static double sum(double[] parts) {
        double total = 0;
        for (double part : parts) {
            total += part;
        }
        return total;
    }
}
