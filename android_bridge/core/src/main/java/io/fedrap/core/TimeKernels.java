package io.fedrap.core;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * What a query is made of: the newest interactions, weighed by time kernels.
 *
 * <pre>w_s(l) = exp(-l/tau_s) / sqrt(sum_l exp(-l/tau_s)),   l = 0 the newest before the question</pre>
 *
 * <p>Without order there is one kernel, w = 1/sqrt(n) for each of n inputs, and an item counts once.
 */
final class TimeKernels {
    private static final double FADED = 1e-4; // exp(-l/tau) below this is zero
    private static final double[] TAUS = {0.3, 1.5, 5.0, 20.0, 100.0};

    final int longest; // newest interactions that count
    final boolean ordered;
    private final double[] taus; // how many interactions each kernel lasts

    /** The fields longest, ordered and taus of a method or a scoring; throws MALFORMED_MESSAGE. */
    TimeKernels(Fields f) {
        longest = (int) f.integer("longest", 2, 5000, 200);
        ordered = f.flag("ordered", true);
        taus = f.numbers("taus", 1, 16, Double.MIN_VALUE, 1e6, TAUS);
    }

    /** S: one for each tau, or the flat one. */
    int count() {
        return ordered ? taus.length : 1;
    }

    void put(Map<String, Object> map) {
        List<Object> all = new ArrayList<>();
        for (double tau : taus) {
            all.add(tau);
        }
        map.put("longest", longest);
        map.put("ordered", ordered);
        map.put("taus", all);
    }

    /** So many of the newest interactions, newest first, without what speaks against items. */
    int[] newest(History history, int most) {
        History liked = history.liked();
        int[] rows = ordered ? liked.rows : liked.distinct(liked.weights, true).rows;
        return Arrays.copyOf(rows, Math.min(rows.length, most));
    }

    /** What a round looks at, oldest first. */
    int[] window(History history) {
        int[] rows = newest(history, longest);
        int[] window = new int[rows.length];
        for (int i = 0; i < rows.length; i++) {
            window[rows.length - 1 - i] = rows[i];
        }
        return window;
    }

    /** w_s(l) of so many inputs, l = 0 the newest: (S·count). */
    double[] weights(int count) {
        double[] out = new double[count() * count];
        for (int s = 0; s < count(); s++) {
            double sum = 0;
            for (int l = 0; l < count; l++) {
                double fade = ordered ? StrictMath.exp(-l / taus[s]) : 1.0;
                out[s * count + l] = fade < FADED ? 0.0 : fade;
                sum += out[s * count + l];
            }
            double root = Math.sqrt(Math.max(sum, 1.0));
            for (int l = 0; l < count; l++) {
                out[s * count + l] /= root;
            }
        }
        return out;
    }
}
