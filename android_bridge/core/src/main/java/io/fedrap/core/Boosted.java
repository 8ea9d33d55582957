package io.fedrap.core;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A ranking in which the app adds something to the scores of some items. */
final class Boosted {
    final Ranking ranked;
    final double[] added; // (n)

    private Boosted(Ranking ranked, double[] added) {
        this.ranked = ranked;
        this.added = added;
    }

    /** Those with something added are scored one by one; of all others the best do. */
    static Boosted of(
            SharedMatrix common,
            UserRepresentation mine,
            SequenceUser part,
            int n,
            boolean[] allowed,
            Map<Integer, Double> added) {
        if (added.isEmpty()) {
            Ranking plain = Ranking.of(common, mine, part, n, allowed);
            return new Boosted(plain, new double[plain.rows.length]);
        }
        boolean[] others = allowed.clone();
        boolean[] raised = new boolean[allowed.length];
        for (int row : added.keySet()) {
            others[row] = false;
            raised[row] = true;
        }
        Ranking both =
                Ranking.of(common, mine, part, n, others)
                        .and(Ranking.of(common, mine, part, added.size(), raised));
        double[] boosts = new double[both.rows.length];
        TopN top = new TopN(Math.min(n, boosts.length));
        for (int i = 0; i < boosts.length; i++) {
            Double much = added.get(both.rows[i]);
            boosts[i] = much == null ? 0.0 : much;
            top.offer(i, both.score(i) + boosts[i]);
        }
        return new Boosted(both, boosts).take(top.rows());
    }

    Boosted take(List<Integer> places) {
        int[] where = new int[places.size()];
        for (int i = 0; i < where.length; i++) {
            where[i] = places.get(i);
        }
        return take(where);
    }

    private Boosted take(int[] places) {
        double[] theirs = new double[places.length];
        for (int i = 0; i < places.length; i++) {
            theirs[i] = added[places[i]];
        }
        return new Boosted(ranked.take(places), theirs);
    }

    /** n of these in the order of maximal marginal relevance (Carbonell and Goldstein 1998). */
    Boosted diversified(SharedMatrix common, int n, double diversity) {
        double[] scores = new double[added.length];
        for (int i = 0; i < scores.length; i++) {
            scores[i] = ranked.score(i) + added[i];
        }
        return take(diversified(common.take(ranked.rows), common.dim(), scores, n, diversity));
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
        List<Integer> chosen = new ArrayList<>();
        while (chosen.size() < Math.min(n, scores.length)) {
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
            chosen.add(best);
            for (int j = 0; j < scores.length; j++) {
                double scale = norms[j] * norms[best];
                double cosine =
                        scale > 0 ? Dense.dot(rows, j * dim, rows, best * dim, dim) / scale : 0.0;
                near[j] = Math.max(near[j], cosine);
            }
        }
        int[] places = new int[chosen.size()];
        for (int i = 0; i < places.length; i++) {
            places[i] = chosen.get(i);
        }
        return places;
    }
}
