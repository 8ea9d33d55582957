package io.fedrap.core;

import java.util.Arrays;

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
    final double[] trend; // (n) zeros where nothing is known of late; the score is the sum of all five

    private Ranking(
            int[] rows,
            double[] shared,
            double[] personal,
            double[] sequence,
            double[] popularity,
            double[] trend) {
        this.rows = rows;
        this.shared = shared;
        this.personal = personal;
        this.sequence = sequence;
        this.popularity = popularity;
        this.trend = trend;
    }

    /** Some of them, in this order. */
    Ranking take(int[] places) {
        int[] theirs = new int[places.length];
        for (int i = 0; i < places.length; i++) {
            theirs[i] = rows[places[i]];
        }
        return new Ranking(
                theirs, some(shared, places), some(personal, places), some(sequence, places),
                some(popularity, places), some(trend, places));
    }

    private static double[] some(double[] all, int[] places) {
        double[] found = new double[places.length];
        for (int i = 0; i < places.length; i++) {
            found[i] = all[places[i]];
        }
        return found;
    }

    /** These, and others behind them. */
    Ranking and(Ranking other) {
        int[] all = Arrays.copyOf(rows, rows.length + other.rows.length);
        System.arraycopy(other.rows, 0, all, rows.length, other.rows.length);
        return new Ranking(
                all, both(shared, other.shared), both(personal, other.personal),
                both(sequence, other.sequence), both(popularity, other.popularity),
                both(trend, other.trend));
    }

    private static double[] both(double[] first, double[] second) {
        double[] all = Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, all, first.length, second.length);
        return all;
    }

    /** The score of one of them. */
    double score(int place) {
        return shared[place] + personal[place] + (sequence[place] + popularity[place]) + trend[place];
    }

    /** The n best of the allowed rows; {@code part} is null without a sequence part. */
    static Ranking of(
            SharedMatrix common,
            UserRepresentation representation,
            SequenceUser part,
            int n,
            boolean[] allowed) {
        int most = Math.max(n, SHORTLIST);
        double weight = representation.scoring.trend;
        int[] shortlist =
                part == null
                        ? common.best(representation.user, weight, most, allowed)
                        : common.best(representation.user, weight, part, most, allowed);
        double share = part == null ? 1.0 : part.scoring.solve;
        double[] theirs = common.take(shortlist);
        double[][] found = new double[5][shortlist.length]; // as the fields above
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
        return new Ranking(shortlist, found[0], found[1], found[2], found[3], found[4])
                .take(top.rows());
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
        return new Ranking(representation.items, shared, personal, sequence, popularity, trend);
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
        return new Ranking(best, found, none, none, none, none);
    }

    private static double sum(double[] parts) {
        double total = 0;
        for (double part : parts) {
            total += part;
        }
        return total;
    }
}
