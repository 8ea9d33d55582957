package io.fedrap.core;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * One user under the sequence part of a release: a query, and what each item of the window adds to it.
 *
 * <pre>
 * q = sum_l v_l * P_{i_l} + eta·sum_t 2^(-age_t/HALF)·s_t        v_l = sum_s w_s(l) a_s
 * s_t = C_{y_t} - sum_j p_tj C_j      p_t: what q_t, the query before y_t and not adapted, expects
 * </pre>
 *
 * <p>The second sum is of the newest {@link #LAST} items, and only where the release has an eta.
 */
final class SequenceUser {
    private static final int LAST = 32;
    private static final double HALF = 10.0; // items until one counts half

    final SequenceScoring scoring;
    final double[] query; // (k) q
    final Map<Integer, double[]> pieces = new LinkedHashMap<>(); // newest first, repeats added up
    private final SequenceRows items;
    private final int[] read; // what q was made of, newest first
    private final double[] own; // (n·k) P of those
    private final double[][] unexpected; // (T, k) s_t, newest first

    /** {@code before}: the user of an earlier moment, null if there was none; what it knows is kept. */
    SequenceUser(SequenceRows rows, History history, SequenceScoring scoring, SequenceUser before) {
        this.scoring = scoring;
        items = rows;
        int longest = scoring.kernels.longest;
        int depth = scoring.adapt > 0 ? Math.min(LAST, longest) : 0;
        read = scoring.kernels.newest(history, longest + depth);
        own = rows.inputs(read);
        query = new double[rows.dim()];
        double[] added = seen(0);
        for (int l = 0; l < added.length / query.length; l++) {
            add(read[l], added, l * query.length, 1.0);
        }
        unexpected = new double[Math.max(0, Math.min(depth, read.length - 1))][];
        int known = unexpected.length == 0 ? 0 : known(before, longest + depth);
        int fresh = unexpected.length - known;
        if (known > 0) {
            System.arraycopy(before.unexpected, 0, unexpected, fresh, known);
        }
        surprise(fresh);
        for (int age = 0; age < unexpected.length; age++) {
            add(read[age], unexpected[age], 0, scoring.adapt * Math.pow(2.0, -age / HALF));
        }
    }

    private void add(int item, double[] numbers, int from, double weight) {
        double[] piece = SequenceProblem.numbers(pieces, item, query.length);
        for (int i = 0; i < query.length; i++) {
            piece[i] += weight * numbers[from + i];
            query[i] += weight * numbers[from + i];
        }
    }

    /** What each of the window after so many of the newest items adds to a query: (n·k). */
    private double[] seen(int after) {
        int k = query.length;
        int n = Math.min(read.length - after, scoring.kernels.longest);
        double[] weights = scoring.kernels.weights(n);
        double[] out = new double[n * k];
        for (int at = 0; at < out.length; at++) {
            double scale = 0;
            for (int s = 0; s < items.kernelCount(); s++) {
                scale += weights[s * n + at / k] * items.kernels[s * k + at % k];
            }
            out[at] = scale * own[after * k + at];
        }
        return out;
    }

    /** How many s_t are known from the same history, which may have had one interaction less. */
    private int known(SequenceUser before, int most) {
        int n = read.length;
        for (int shift = 0; shift < 2 && before != null && before.items == items; shift++) {
            boolean fits = before.read.length == n - shift || before.read.length == n && n == most;
            int[] old = Arrays.copyOf(before.read, n - shift);
            if (fits && Arrays.equals(Arrays.copyOfRange(read, shift, n), old)) {
                return Math.min(before.unexpected.length, unexpected.length - shift);
            }
        }
        return 0;
    }

    /** s_t of so many of the newest items. */
    private void surprise(int count) {
        int k = query.length;
        double[] asked = new double[count * k];
        for (int t = 0; t < count; t++) {
            double[] seen = seen(t + 1);
            for (int at = 0; at < seen.length; at++) {
                asked[t * k + at % k] += seen[at];
            }
        }
        int[] wanted = Arrays.copyOf(read, count);
        double[] found = items.take(wanted);
        double[] expected = SequenceSoftmax.of(new SequenceProblem(items, asked, wanted), null).rows;
        for (int t = 0; t < count; t++) {
            unexpected[t] = new double[k];
            for (int i = 0; i < k; i++) {
                unexpected[t][i] = found[t * k + i] - expected[t * k + i];
            }
        }
    }
}
