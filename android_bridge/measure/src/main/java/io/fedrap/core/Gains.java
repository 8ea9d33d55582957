package io.fedrap.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * How good this device's lists were, seen from what the user touched next. Immutable.
 *
 * <p>Every interaction is looked at once, under the release that was in use when it was recorded and before
 * another is adopted, with the history as it was before it: no list ever knew its answer. What is kept are
 * a few sums for each of the last releases; they leave only in answers to questions.
 */
final class Gains {
    static final int MOST_COUNTED = 20; // interactions under one release: no device is a crowd
    private static final int KEPT_RELEASES = 8;
    private static final int LINES = 4; // metrics, in the order of Question.METRICS

    private final long mark; // number of the last interaction that was looked at
    private final Map<Long, double[]> sums; // by release: how many, own and popular of each metric

    private Gains(long mark, Map<Long, double[]> sums) {
        this.mark = mark;
        this.sums = sums;
    }

    /** As {@link #encode} wrote it, or none. */
    static Gains decode(byte[] raw) {
        List<?> parts = StateCodec.list(raw);
        Map<Long, double[]> sums = new LinkedHashMap<>();
        for (int i = 1; i < parts.size(); i++) {
            List<?> one = (List<?>) parts.get(i);
            double[] numbers = new double[1 + 2 * LINES];
            for (int j = 0; j < numbers.length; j++) {
                numbers[j] = (Double) one.get(1 + j);
            }
            sums.put((Long) one.get(0), numbers);
        }
        return new Gains(parts.isEmpty() ? -1 : (Long) parts.get(0), sums);
    }

    byte[] encode() {
        List<Object> parts = new ArrayList<>();
        parts.add(mark);
        for (Map.Entry<Long, double[]> one : sums.entrySet()) {
            List<Object> numbers = new ArrayList<>();
            numbers.add(one.getKey());
            for (double number : one.getValue()) {
                numbers.add(number);
            }
            parts.add(numbers);
        }
        return MsgPack.encode(parts);
    }

    /** Each metric of an item of that rank, 0 being the first. */
    static double[] of(int rank) {
        double gain = StrictMath.log(2) / StrictMath.log(rank + 2.0);
        double hit = rank < 10 ? 1.0 : 0.0;
        return new double[] {hit, hit * gain, gain, 1.0 / (rank + 1.0)};
    }

    /** One more interaction, whose item had these ranks; the same where no more count. */
    static double[] with(double[] sums, int own, int popular) {
        double[] more = sums == null ? new double[1 + 2 * LINES] : sums.clone();
        if (more[0] < MOST_COUNTED) {
            more[0]++;
            for (int metric = 0; metric < LINES; metric++) {
                more[1 + metric] += of(own)[metric];
                more[1 + LINES + metric] += of(popular)[metric];
            }
        }
        return more;
    }

    /** The means of a metric, own and popular; null where nothing was counted. */
    static double[] means(double[] sums, String metric) {
        int place = 1 + Question.METRICS.indexOf(metric);
        return sums == null || sums[0] == 0
                ? null
                : new double[] {sums[place] / sums[0], sums[place + LINES] / sums[0]};
    }

    /**
     * With all interactions looked at that were not; the same object where there was none.
     *
     * @param since what was recorded before the release in use was adopted, and not looked at by then, never
     *     counts
     */
    Gains measured(LocalModel model, List<Interaction> interactions, long[] numbers, long since) {
        long after = Math.max(mark, since);
        long newest = after;
        for (long number : numbers) {
            newest = Math.max(newest, number);
        }
        if (newest == after) {
            return this;
        }
        Map<Long, double[]> all = new LinkedHashMap<>(sums);
        double[] mine = all.remove(model.common.version);
        for (int[] ranks : ranks(model, model.header.scoring, interactions, numbers, after, 2 * MOST_COUNTED)) {
            mine = with(mine, ranks[0], ranks[1]);
        }
        all.put(model.common.version, mine == null ? new double[1 + 2 * LINES] : mine);
        while (all.size() > KEPT_RELEASES) {
            all.remove(all.keySet().iterator().next());
        }
        return new Gains(newest, all);
    }

    /** Of the newest interactions after one, where their items stood before anybody knew of them. */
    private static List<int[]> ranks(
            LocalModel model, Scoring scoring, List<Interaction> interactions, long[] numbers, long after,
            int most) {
        int left = 0;
        for (long number : numbers) {
            left += number > after ? 1 : 0;
        }
        List<int[]> found = new ArrayList<>();
        for (int place = 0; place < numbers.length && found.size() < MOST_COUNTED; place++) {
            if (numbers[place] > after && left-- <= most) {
                int[] ranks = ranks(model, scoring, interactions.subList(0, place), interactions.get(place));
                if (ranks != null) {
                    found.add(ranks);
                }
            }
        }
        return found;
    }

    /** What this device has to say to a question: gains for each block, null where it has none. */
    double[][] answer(
            Question asked, LocalModel model, List<Interaction> interactions, long[] numbers, long since) {
        double[][] blocks = new double[asked.releases.size()][];
        if (asked.trial != null) {
            return blocks; // no staged release was in use here
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
            List<int[]> ranks = ranks(model, scoring, interactions, numbers, since, MOST_COUNTED);
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
     * own, and in the one that is the same for everybody. Null where it could not be in them: seen before,
     * not in C, not shown, or spoken against.
     */
    static int[] ranks(LocalModel model, Scoring scoring, List<Interaction> before, Interaction one) {
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
                        : new SequenceUser(model.common.sequence, seen, scoring.sequence);
        int popular = 0;
        for (int above = 0; above < row; above++) {
            popular += allowed[above] ? 1 : 0;
        }
        return new int[] {rankOf(model, mine, other, row, allowed), popular};
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
