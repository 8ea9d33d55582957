package io.fedrap.core;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * p_t over all items, a block of them at a time, so that memory does not grow with the catalogue.
 *
 * <p>Whatever looks at a block says the largest score of each query, the sums of e^(score - largest) over
 * groups of {@link #GROUP} items, and sum_j e^(score - largest)·C_j; blocks are put together here.
 */
final class SequenceSoftmax {
    static final int BLOCK = 8192; // items looked at at once; a multiple of GROUP
    static final int GROUP = SequenceProblem.GROUP; // items whose chances are added before a decoy is looked for there

    private final SequenceProblem problem;
    private final List<double[]> peaks = new ArrayList<>(); // of each block (T)
    private final List<double[]> groups = new ArrayList<>(); // (T·G)
    private final List<double[]> pulled = new ArrayList<>(); // (T·k)

    private SequenceSoftmax(SequenceProblem problem) {
        this.problem = problem;
    }

    /** The answer, by what looks at a block; null for float64. */
    static SequenceAnswer of(SequenceProblem problem, SequenceProblem.Look look) {
        SequenceSoftmax all = new SequenceSoftmax(problem);
        int count = problem.count();
        for (int start = 0; count > 0 && start < problem.size(); start += BLOCK) {
            int end = Math.min(problem.size(), start + BLOCK);
            double[] peak = new double[count];
            double[] sums = new double[count * ((end - start + GROUP - 1) / GROUP)];
            double[] pull = new double[count * problem.dim()];
            if (look == null) {
                look(problem, start, end, peak, sums, pull);
            } else {
                look.at(start, end, peak, sums, pull);
            }
            all.peaks.add(peak);
            all.groups.add(sums);
            all.pulled.add(pull);
        }
        return all.answer();
    }

    private static void look(
            SequenceProblem problem, int start, int end, double[] peak, double[] sums, double[] pull) {
        int k = problem.dim();
        int count = problem.count();
        int width = end - start;
        double[] scores = new double[count * width];
        Arrays.fill(peak, Double.NEGATIVE_INFINITY);
        double[] row = new double[k];
        for (int j = start; j < end; j++) {
            problem.items.outputs.read(j, row, 0);
            for (int t = 0; t < count; t++) {
                double score = Dense.dot(problem.queries, t * k, row, 0, k) + problem.items.bias[j];
                scores[t * width + j - start] = score;
                peak[t] = Math.max(peak[t], score);
            }
        }
        int many = sums.length / count;
        for (int j = start; j < end; j++) {
            problem.items.outputs.read(j, row, 0);
            for (int t = 0; t < count; t++) {
                double chance = Math.exp(scores[t * width + j - start] - peak[t]);
                sums[t * many + (j - start) / GROUP] += chance;
                for (int i = 0; i < k; i++) {
                    pull[t * k + i] += chance * row[i];
                }
            }
        }
    }

    private SequenceAnswer answer() {
        int k = problem.dim();
        int count = problem.count();
        double[] rows = new double[count * k];
        int[] decoys = new int[problem.chances.length];
        int each = count == 0 ? 0 : decoys.length / count; // D
        double[] surprise = new double[count];
        double[] wanted = problem.items.take(problem.targets);
        for (int t = 0; t < count; t++) {
            double top = Double.NEGATIVE_INFINITY;
            for (double[] peak : peaks) {
                top = Math.max(top, peak[t]);
            }
            double total = 0;
            for (int b = 0; b < peaks.size(); b++) {
                double share = Math.exp(peaks.get(b)[t] - top);
                int many = groups.get(b).length / count;
                for (int g = 0; g < many; g++) {
                    groups.get(b)[t * many + g] *= share;
                    total += groups.get(b)[t * many + g];
                }
                for (int i = 0; i < k; i++) {
                    rows[t * k + i] += share * pulled.get(b)[t * k + i];
                }
            }
            for (int i = 0; i < k; i++) {
                rows[t * k + i] /= total;
            }
            double score =
                    Dense.dot(problem.queries, t * k, wanted, t * k, k)
                            + problem.items.bias[problem.targets[t]];
            surprise[t] = Math.log(total) + top - score;
            for (int at = t * each; at < (t + 1) * each; at++) {
                decoys[at] = decoy(t, problem.chances[at] * total, top);
            }
        }
        return new SequenceAnswer(rows, decoys, surprise);
    }

    /** The item at which the chances, added up, pass the goal. */
    private int decoy(int t, double goal, double top) {
        double before = 0;
        int first = 0; // row of the group that is looked at
        for (int b = 0; b < groups.size(); b++) {
            int many = groups.get(b).length / problem.count();
            for (int g = 0; g < many; g++) {
                double sum = groups.get(b)[t * many + g];
                first = b * BLOCK + g * GROUP;
                boolean last = first + GROUP >= problem.size();
                if (before + sum > goal || last) {
                    return within(t, first, goal - before, top);
                }
                before += sum;
            }
        }
        return problem.size() - 1;
    }

    private int within(int t, int first, double goal, double top) {
        int k = problem.dim();
        int end = Math.min(problem.size(), first + GROUP);
        double[] row = new double[k];
        double sum = 0;
        for (int j = first; j < end; j++) {
            problem.items.outputs.read(j, row, 0);
            double score = Dense.dot(problem.queries, t * k, row, 0, k) + problem.items.bias[j];
            sum += Math.exp(score - top);
            if (sum > goal) {
                return j;
            }
        }
        return end - 1; // where rounding leaves the sum below the goal
    }
}
