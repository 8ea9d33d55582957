package io.fedrap.core;

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
    final double[] personal; // (n) the score is shared + personal

    private Ranking(int[] rows, double[] shared, double[] personal) {
        this.rows = rows;
        this.shared = shared;
        this.personal = personal;
    }

    /** Some of them, in this order. */
    Ranking take(int[] places) {
        int[] theirs = new int[places.length];
        double[] theirShared = new double[places.length];
        double[] theirPersonal = new double[places.length];
        for (int i = 0; i < places.length; i++) {
            theirs[i] = rows[places[i]];
            theirShared[i] = shared[places[i]];
            theirPersonal[i] = personal[places[i]];
        }
        return new Ranking(theirs, theirShared, theirPersonal);
    }

    /** These, and others behind them. */
    Ranking and(Ranking other) {
        int[] all = java.util.Arrays.copyOf(rows, rows.length + other.rows.length);
        double[] allShared = java.util.Arrays.copyOf(shared, all.length);
        double[] allPersonal = java.util.Arrays.copyOf(personal, all.length);
        System.arraycopy(other.rows, 0, all, rows.length, other.rows.length);
        System.arraycopy(other.shared, 0, allShared, rows.length, other.rows.length);
        System.arraycopy(other.personal, 0, allPersonal, rows.length, other.rows.length);
        return new Ranking(all, allShared, allPersonal);
    }

    /** The n best of the allowed rows. */
    static Ranking of(SharedMatrix common, UserRepresentation representation, int n, boolean[] allowed) {
        int[] shortlist = common.best(representation.user, Math.max(n, SHORTLIST), allowed);
        double[] theirs = common.take(shortlist);
        double[] shared = new double[shortlist.length];
        double[] personal = new double[shortlist.length];
        TopN top = new TopN(Math.min(n, shortlist.length));
        for (int i = 0; i < shortlist.length; i++) {
            int at = i * common.dim();
            shared[i] = representation.shared(theirs, at); // float64, so that reasons add up to it
            personal[i] = sum(representation.personalParts(shortlist[i], theirs, at));
            top.offer(i, shared[i] + personal[i]);
        }
        return new Ranking(shortlist, shared, personal).take(top.rows());
    }

    /**
     * Why an item has its score: a shared and a personal number for each item of the history, newest
     * first, which add up to it. Here {@code rows} are those items.
     */
    static Ranking explain(SharedMatrix common, UserRepresentation representation, int row) {
        double[] theirs = common.take(new int[] {row});
        double[] personal = new double[representation.items.length];
        double[] owed = representation.personalParts(row, theirs, 0);
        System.arraycopy(owed, 0, personal, 0, owed.length);
        return new Ranking(representation.items, representation.sharedParts(theirs), personal);
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
        return new Ranking(best, found, new double[best.length]);
    }

    private static double sum(double[] parts) {
        double total = 0;
        for (double part : parts) {
            total += part;
        }
        return total;
    }
}
