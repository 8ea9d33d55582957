package io.fedrap.core;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * One user under the sequence part of a release: a query, and what each item of the window adds to it.
 *
 * <pre>q = sum_l v_l * P_{i_l},   v_l = sum_s w_s(l) a_s</pre>
 */
final class SequenceUser {
    final SequenceScoring scoring;
    final double[] query; // (k) q
    final Map<Integer, double[]> pieces = new LinkedHashMap<>(); // newest first, repeats added up

    SequenceUser(SequenceRows rows, History history, SequenceScoring scoring) {
        this.scoring = scoring;
        int k = rows.dim();
        int[] window = scoring.kernels.window(history);
        int n = window.length;
        double[] weights = scoring.kernels.weights(n);
        double[] own = rows.inputs(window);
        query = new double[k];
        for (int l = 0; l < n; l++) {
            int place = n - 1 - l;
            double[] piece = pieces.get(window[place]);
            if (piece == null) {
                piece = new double[k];
                pieces.put(window[place], piece);
            }
            for (int i = 0; i < k; i++) {
                double scale = 0;
                for (int s = 0; s < rows.kernelCount(); s++) {
                    scale += weights[s * n + l] * rows.kernels[s * k + i];
                }
                piece[i] += scale * own[place * k + i];
                query[i] += scale * own[place * k + i];
            }
        }
    }
}
