package io.fedrap.core;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntFunction;

/**
 * What a device adds to a round of the sequence part: Q of its own items, each predicted from those
 * before it (without order from all others), some inputs left out at random.
 *
 * <pre>
 * P_j = C_j + Delta_j       h_ts = sum_l w_s(l) P_{i_(t-l)}        q_t = sum_s a_s * h_ts
 * p_t = softmax_j(q_t·C_j + b_j)            e_t = sum_j p_tj C_j - C_{y_t}
 * inputs[i]    += w_s(l) a_s * e_t          for every input i of t: own items only
 * outputs[y_t] -= (q_t, 1);  outputs[j'] += (q_t, 1)/D, j' ~ p_t     D decoys for each target
 * kernels[s]   += e_t * h_ts
 * </pre>
 *
 * <p>Few rows go into the queries; a trainer answers what takes m·k·Q products. Immutable.
 */
public final class SequenceProblem {
    /** Items whose chances are added before a decoy is looked for among them. */
    public static final int GROUP = 64;

    /** What looks at a block of items, for a trainer that has something faster than plain Java. */
    public interface Look {
        /**
         * Items start … end - 1; start is a multiple of {@link #GROUP}.
         *
         * @param peak to be filled: the largest score q_t·C_j + b_j of each query: (T)
         * @param groups the sums of e^(score - largest) over each GROUP of items: (T·groups)
         * @param pulled sum_j e^(score - largest)·C_j: (T·k)
         */
        void at(int start, int end, double[] peak, double[] groups, double[] pulled);
    }

    final SequenceRows items;
    final int[] targets; // (T) rows y_t
    final double[] chances; // (T·D) in [0, 1): where in p_t, added up, the decoys of each target lie
    final double[] queries; // (T·k) q
    private final SequenceMethod method;
    private final int[] window; // (n) oldest first
    private final double[] weights; // (T·S·n)
    private final double[] seen; // (T·S·k) h

    /**
     * This device's problem of a round.
     *
     * @param uniform gives so many numbers in [0, 1)
     */
    SequenceProblem(
            SequenceRows items, History history, SequenceMethod method, IntFunction<double[]> uniform) {
        this.items = items;
        this.method = method;
        window = method.kernels.window(history);
        int n = window.length;
        int[] places = places(uniform);
        int count = places.length;
        double[] kept = uniform.apply(count * n);
        chances = uniform.apply(count * method.decoys);
        targets = new int[count];
        int kernels = method.kernels.count();
        weights = new double[count * kernels * n];
        for (int t = 0; t < count; t++) {
            targets[t] = window[places[t]];
            look(t, places[t], kernels, kept);
        }
        int k = items.dim();
        seen = new double[count * kernels * k];
        queries = new double[count * k];
        double[] own = items.inputs(window); // (n·k)
        for (int at = 0; at < count * kernels; at++) {
            for (int place = 0; place < n; place++) {
                double weight = weights[at * n + place];
                for (int i = 0; weight != 0 && i < k; i++) {
                    seen[at * k + i] += weight * own[place * k + i];
                }
            }
            for (int i = 0; i < k; i++) {
                queries[at / kernels * k + i] += items.kernels[at % kernels * k + i] * seen[at * k + i];
            }
        }
    }

    /** Queries as they are, to see what they expect: nothing is drawn, and nothing is learnt. */
    SequenceProblem(SequenceRows items, double[] queries, int[] targets) {
        this.items = items;
        this.queries = queries;
        this.targets = targets;
        method = null;
        chances = new double[0];
        weights = chances;
        seen = chances;
        window = new int[0];
    }

    /** Places of targets, ascending: those of the Q smallest of as many numbers as there are places. */
    private int[] places(IntFunction<double[]> uniform) {
        int first = method.kernels.ordered ? 1 : 0;
        int able = window.length < 2 ? 0 : window.length - first;
        boolean tooMany = able > method.targets;
        double[] drawn = tooMany ? uniform.apply(able) : new double[able];
        double[] sorted = drawn.clone();
        Arrays.sort(sorted);
        int[] places = new int[Math.min(able, method.targets)];
        double last = places.length == 0 ? 0.0 : sorted[places.length - 1];
        int equal = 0; // to the last of them, and among them: the first of those that are
        for (int i = 0; i < places.length; i++) {
            equal += sorted[i] == last ? 1 : 0;
        }
        int at = 0;
        for (int i = 0; i < able; i++) {
            if (drawn[i] < last || drawn[i] == last && equal-- > 0) {
                places[at++] = i + first;
            }
        }
        return places;
    }

    /** The weights of what target t may look at, 0 elsewhere. */
    private void look(int t, int place, int kernels, double[] kept) {
        int n = window.length;
        int inputs = method.kernels.ordered ? place : n - 1;
        double[] scales = method.kernels.weights(inputs);
        for (int l = 0; l < inputs; l++) {
            // Ordered: l = 0 is the newest before the target. Otherwise all others, in their order.
            int at = method.kernels.ordered ? place - 1 - l : l < place ? l : l + 1;
            if (kept[t * n + at] >= method.dropout) {
                for (int s = 0; s < kernels; s++) {
                    weights[(t * kernels + s) * n + at] = scales[s * inputs + l];
                }
            }
        }
    }

    /** T, how many queries there are. */
    public int count() {
        return targets.length;
    }

    /** k, the length of a query and of a row. */
    public int dim() {
        return items.dim();
    }

    /** m, the number of items. */
    public int size() {
        return items.size();
    }

    /** A copy of all q_t, one after the other: (T·k). */
    public double[] queries() {
        return queries.clone();
    }

    /** The int8 steps of C, row after row: (m·k). Not to be changed. */
    public byte[] values() {
        return items.outputs.values;
    }

    /** The step width of each row of C: (m). Not to be changed. */
    public float[] scales() {
        return items.outputs.scales;
    }

    /** b: (m). Not to be changed. */
    public float[] bias() {
        return items.bias;
    }

    /** Row y_t of each query: a copy, (T). */
    public int[] targets() {
        return targets.clone();
    }

    /** For each query where in p_t, added up item by item, its D decoys lie, in [0, 1): a copy, (T·D). */
    public double[] chances() {
        return chances.clone();
    }

    /** The answer, with all blocks of items looked at by {@code look}. */
    public SequenceAnswer answer(Look look) {
        return SequenceSoftmax.of(this, look);
    }

    /** The parts of the update that follow from a trainer's answer, times the plan's scale. */
    RowPart[] parts(SequenceAnswer answer) {
        int k = dim();
        int n = window.length;
        int kernels = method.kernels.count();
        double[] wanted = items.take(targets);
        double[] errors = new double[targets.length * k]; // e
        for (int i = 0; i < errors.length; i++) {
            errors[i] = answer.rows[i] - wanted[i];
        }
        Map<Integer, double[]> inputs = new TreeMap<>();
        for (int row : window) {
            numbers(inputs, row, k);
        }
        Map<Integer, double[]> outputs = new TreeMap<>();
        double[] moves = new double[kernels * k];
        for (int t = 0; t < targets.length; t++) {
            for (int s = 0; s < kernels; s++) {
                int at = t * kernels + s;
                for (int place = 0; place < n; place++) {
                    double weight = weights[at * n + place];
                    double[] row = weight == 0 ? null : inputs.get(window[place]);
                    for (int i = 0; row != null && i < k; i++) {
                        row[i] += weight * items.kernels[s * k + i] * errors[t * k + i];
                    }
                }
                for (int i = 0; i < k; i++) {
                    moves[s * k + i] += errors[t * k + i] * seen[at * k + i];
                }
            }
            add(numbers(outputs, targets[t], k + 1), t, -1.0);
            int each = method.decoys;
            for (int at = t * each; at < (t + 1) * each; at++) {
                add(numbers(outputs, answer.decoys[at], k + 1), t, 1.0 / each);
            }
        }
        return new RowPart[] {
            part("inputs", inputs, k),
            part("outputs", outputs, k + 1),
            new RowPart("kernels", null, scaled(moves), k)
        };
    }

    /** Those of a row, zeros at first. */
    static double[] numbers(Map<Integer, double[]> byRow, int row, int width) {
        double[] found = byRow.get(row);
        if (found == null) {
            found = new double[width];
            byRow.put(row, found);
        }
        return found;
    }

    private void add(double[] row, int t, double share) {
        int k = dim();
        for (int i = 0; i < k; i++) {
            row[i] += share * queries[t * k + i];
        }
        row[k] += share;
    }

    private RowPart part(String name, Map<Integer, double[]> byRow, int width) {
        int[] rows = new int[byRow.size()];
        double[] values = new double[rows.length * width];
        int at = 0;
        for (Map.Entry<Integer, double[]> one : byRow.entrySet()) {
            System.arraycopy(one.getValue(), 0, values, at * width, width);
            rows[at++] = one.getKey();
        }
        return new RowPart(name, rows, scaled(values), width);
    }

    private double[] scaled(double[] numbers) {
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] *= method.scale;
        }
        return numbers;
    }

    @Override
    public String toString() {
        return "SequenceProblem(...)"; // what a user did belongs in no log
    }
}
