package io.fedrap.core;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * How good this device's lists were, seen from what the user touched next. Immutable.
 *
 * <p>Every interaction is looked at once, under the release that was in use when it was recorded and before
 * another is adopted, with the history as it was before it: no list ever knew its answer. What is kept are
 * a few sums for each of the last releases; they leave only in answers to questions. Where a staged release is
 * in use beside the full one, each interaction is looked at under both.
 */
final class Gains {
    static final int MOST_COUNTED = 20; // interactions under one release: no device is a crowd
    private static final int KEPT_RELEASES = 8;
    private static final int KEPT_PAIRS = 2;
    private static final double LEAD_BITS = 2.0; // a rank that is four times another is as far apart as counts
    private static final int METRICS = 4; // in the order of Question.METRICS
    private static final int LISTS = 3; // own, popular, and by the trend

    private final long mark; // number of the last interaction that was looked at
    private final Map<Long, double[]> sums; // by release: how many, then each metric of each list
    private final Map<Long, double[]> pairs; // by staged release: how many, and their leads

    private Gains(long mark, Map<Long, double[]> sums, Map<Long, double[]> pairs) {
        this.mark = mark;
        this.sums = sums;
        this.pairs = pairs;
    }

    /** As {@link #encode} wrote it, or none. */
    static Gains decode(byte[] raw) {
        List<?> parts = StateCodec.list(raw);
        Map<Long, double[]> sums = new LinkedHashMap<>();
        Map<Long, double[]> pairs = new LinkedHashMap<>();
        for (int i = 1; i < parts.size(); i++) {
            List<?> one = (List<?>) parts.get(i);
            double[] numbers = new double[one.size() - 1];
            for (int j = 0; j < numbers.length; j++) {
                numbers[j] = (Double) one.get(1 + j);
            }
            (numbers.length == 2 ? pairs : sums).put((Long) one.get(0), numbers);
        }
        return new Gains(parts.isEmpty() ? -1 : (Long) parts.get(0), sums, pairs);
    }

    byte[] encode() {
        List<Object> parts = new ArrayList<>();
        parts.add(mark);
        for (Map<Long, double[]> some : Arrays.asList(sums, pairs)) {
            for (Map.Entry<Long, double[]> one : some.entrySet()) {
                List<Object> numbers = new ArrayList<>();
                numbers.add(one.getKey());
                for (double number : one.getValue()) {
                    numbers.add(number);
                }
                parts.add(numbers);
            }
        }
        return MsgPack.encode(parts);
    }

    /** Each metric of an item of that rank, 0 being the first. */
    static double[] of(int rank) {
        double gain = StrictMath.log(2) / StrictMath.log(rank + 2.0);
        double hit = rank < 10 ? 1.0 : 0.0;
        return new double[] {hit, hit * gain, gain, 1.0 / (rank + 1.0)};
    }

    /** One more interaction, whose item had these ranks in each list; the same where no more count. */
    static double[] with(double[] sums, int... ranks) {
        double[] more = sums == null ? new double[1 + LISTS * METRICS] : sums.clone();
        if (more[0] < MOST_COUNTED) {
            more[0]++;
            for (int at = 0; at < LISTS * METRICS; at++) {
                more[1 + at] += of(ranks[at / METRICS])[at % METRICS];
            }
        }
        return more;
    }

    /** By how much the later of two releases had an item further up, in [-1, 1]; -1: it does not show it. */
    static double lead(int before, int after) {
        if (before < 0 || after < 0) {
            return (before < 0 ? 1 : 0) - (after < 0 ? 1 : 0);
        }
        double bits = StrictMath.log((before + 2.0) / (after + 2.0)) / StrictMath.log(2);
        return Math.max(-1.0, Math.min(1.0, bits / LEAD_BITS));
    }

    /** One more interaction, with these ranks; the same where no more count or neither shows its item. */
    static double[] withLead(double[] pair, int before, int after) {
        double[] more = pair == null ? new double[2] : pair.clone();
        if (more[0] < MOST_COUNTED && (before >= 0 || after >= 0)) {
            more[0]++;
            more[1] += lead(before, after);
        }
        return more;
    }

    /** The mean lead; null where nothing was counted. */
    static double[] meanLead(double[] pair) {
        return pair == null || pair[0] == 0 ? null : new double[] {pair[1] / pair[0]};
    }

    /** The means of a metric, for each list; null where nothing was counted. */
    static double[] means(double[] sums, String metric) {
        if (sums == null || sums[0] == 0) {
            return null;
        }
        double[] means = new double[LISTS];
        for (int list = 0; list < LISTS; list++) {
            means[list] = sums[1 + list * METRICS + Question.METRICS.indexOf(metric)] / sums[0];
        }
        return means;
    }

    /**
     * With all interactions looked at that were not; the same object where there was none.
     *
     * @param full the full release; another than {@code model}, which is in use, where that is a staged one
     * @param since what was recorded before the release in use was adopted, and not looked at by then, never
     *     counts
     */
    Gains measured(
            LocalModel model, LocalModel full, List<Interaction> interactions, long[] numbers, long since) {
        long after = Math.max(mark, since);
        long newest = after;
        for (long number : numbers) {
            newest = Math.max(newest, number);
        }
        if (newest == after) {
            return this;
        }
        long version = model.common.version;
        double[] mine = sums.containsKey(version) ? sums.get(version) : new double[1 + LISTS * METRICS];
        double[] pair = pairs.get(version);
        SequenceUser[] ours = new SequenceUser[1];
        SequenceUser[] theirs = new SequenceUser[1];
        for (int place : fresh(numbers, after, 2 * MOST_COUNTED)) {
            if (mine[0] == MOST_COUNTED) {
                break;
            }
            List<Interaction> before = interactions.subList(0, place);
            int[] ranks = ranks(model, model.header.scoring, before, interactions.get(place), ours);
            if (ranks != null) {
                mine = with(mine, ranks);
            }
            if (full != model) {
                int[] other = ranks(full, full.header.scoring, before, interactions.get(place), theirs);
                pair = withLead(pair, other == null ? -1 : other[0], ranks == null ? -1 : ranks[0]);
            }
        }
        return new Gains(
                newest, newest(sums, version, mine, KEPT_RELEASES), newest(pairs, version, pair, KEPT_PAIRS));
    }

    /** With the numbers of one more release, of which those of the newest are kept. */
    private static Map<Long, double[]> newest(
            Map<Long, double[]> known, long version, double[] numbers, int most) {
        Map<Long, double[]> all = new LinkedHashMap<>(known);
        all.remove(version);
        if (numbers != null) {
            all.put(version, numbers);
        }
        while (all.size() > most) {
            all.remove(all.keySet().iterator().next());
        }
        return all;
    }

    /** Places of the newest interactions after one, oldest first. */
    private static List<Integer> fresh(long[] numbers, long after, int most) {
        List<Integer> places = new ArrayList<>();
        for (int place = 0; place < numbers.length; place++) {
            if (numbers[place] > after) {
                places.add(place);
            }
        }
        return places.subList(Math.max(0, places.size() - most), places.size());
    }

    /** Of the newest interactions after one, where their items stood before anybody knew of them. */
    private static List<int[]> ranks(
            LocalModel model, Scoring scoring, List<Interaction> interactions, long[] numbers, long after) {
        List<int[]> found = new ArrayList<>();
        SequenceUser[] last = new SequenceUser[1];
        for (int place : fresh(numbers, after, MOST_COUNTED)) {
            List<Interaction> before = interactions.subList(0, place);
            int[] ranks = ranks(model, scoring, before, interactions.get(place), last);
            if (ranks != null) {
                found.add(ranks);
            }
        }
        return found;
    }

    /** What this device has to say to a question: gains for each block, null where it has none. */
    double[][] answer(
            Question asked, LocalModel model, List<Interaction> interactions, long[] numbers, long since) {
        double[][] blocks = new double[asked.releases.size()][];
        if (asked.trial != null) {
            blocks[0] = meanLead(pairs.get(asked.releases.get(0)));
            return blocks;
        }
        if (asked.variants.isEmpty()) {
            for (int i = 0; i < blocks.length; i++) {
                blocks[i] = means(sums.get(asked.releases.get(i)), asked.metric);
            }
        } else if (model != null && asked.releases.get(0) == model.common.version) {
            blocks[0] = variants(asked, model, interactions, numbers, since);
        }
        return blocks;
    }

    private static double[] variants(
            Question asked, LocalModel model, List<Interaction> interactions, long[] numbers, long since) {
        int metric = Question.METRICS.indexOf(asked.metric);
        double[] means = new double[asked.variants.size()];
        for (int i = 0; i < means.length; i++) {
            Scoring scoring = asked.variants.get(i);
            if (!model.header.scoring.isSolve() || !scoring.isSolve() || !model.fits(scoring)) {
                return null;
            }
            List<int[]> ranks = ranks(model, scoring, interactions, numbers, since);
            if (ranks.isEmpty()) {
                return null;
            }
            for (int[] one : ranks) {
                means[i] += of(one[0])[metric] / ranks.size();
            }
        }
        return means;
    }

    /**
     * Where the item of an interaction stood in the lists of the moment before it, 0 first: in this user's
     * own, in the catalogue's order and in that of the trend, which without one is the catalogue's. Null
     * where it could not be in them: seen before, not in C, not shown, or spoken against.
     *
     * @param last (1) the same user at the interaction asked about before, or null; replaced by this one
     */
    static int[] ranks(
            LocalModel model,
            Scoring scoring,
            List<Interaction> before,
            Interaction one,
            SequenceUser[] last) {
        int row = model.row(one.item);
        Double counts = model.kinds.weight(one.kind);
        if (row < 0 || counts == null || counts <= 0 || !model.isTaught()) {
            return null;
        }
        History seen = model.looked(before);
        boolean[] allowed = model.shown.clone();
        for (int known : seen.rows) {
            allowed[known] = false;
        }
        if (!allowed[row]) {
            return null;
        }
        UserRepresentation mine = new UserRepresentation(model.common, model.gram(), seen, scoring);
        SequenceUser other =
                scoring.sequence == null
                        ? null
                        : new SequenceUser(model.common.sequence, seen, scoring.sequence, last[0]);
        last[0] = other;
        int popular = 0;
        int lately = 0;
        Trend trend = model.common.trend;
        double here = trend == null ? 0.0 : trend.of(row);
        for (int above = 0; above < allowed.length; above++) {
            double there = trend == null ? 0.0 : trend.of(above);
            popular += allowed[above] && above < row ? 1 : 0;
            lately += allowed[above] && (there > here || above < row && there == here) ? 1 : 0;
        }
        return new int[] {rankOf(model, mine, other, row, allowed), popular, lately};
    }

    /** How many of the allowed rows stand before this one, which is allowed, in the list of them all. */
    private static int rankOf(
            LocalModel model, UserRepresentation mine, SequenceUser part, int row, boolean[] allowed) {
        SharedMatrix common = model.common;
        float[] scores = common.scores(mine.user, mine.scoring.trend, part, allowed);
        int above = 0;
        for (float score : scores) {
            above += score > scores[row] ? 1 : 0;
        }
        if (above < Ranking.SHORTLIST) { // otherwise D has no word there
            int[] list = Ranking.of(common, mine, part, Ranking.SHORTLIST, scores).rows;
            for (int place = 0; place < list.length; place++) {
                if (list[place] == row) {
                    return place;
                }
            }
        }
        return above;
    }
}
