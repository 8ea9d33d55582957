package io.fedrap.core;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/**
 * One device's update in whole steps of Δ = peak·S/R, from -R to R: clipped to S as a whole and each number
 * to peak·S, rounded up or down by chance, so that the mean stays. What rounding made longer than
 * Q = floor((S/Δ)²) is shrunk until it is not.
 */
final class SmallNumbers {
    final int[] rows; // (n) ascending, H at most
    final long[] values; // (n·width) all parts side by side
    final long[] whole; // Gram matrix and other whole parts
    final int fits; // R, -R or 0

    private SmallNumbers(int[] rows, long[] values, long[] whole, int fits) {
        this.rows = rows;
        this.values = values;
        this.whole = whole;
        this.fits = fits;
    }

    /** How many random numbers {@link #of} needs at most. */
    static int uniformCount(Terms terms) {
        return terms.rows * terms.width + terms.whole;
    }

    /** An update as it was computed, by uniform numbers in [0, 1). */
    static SmallNumbers of(RowUpdate computed, Terms terms, double[] uniform) {
        Privacy rule = terms.rule;
        RowUpdate update = Double.isNaN(rule.rowClip) ? computed : computed.clipRows(rule.rowClip);
        double[] whole = new double[terms.whole];
        for (int i = 0; i < update.gram.length; i++) {
            whole[i] = update.gram[i] * terms.gramScale;
        }
        Map<Integer, double[]> byRow = new TreeMap<>();
        put(byRow, update.rows, update.values, terms.dim, 0, terms.width);
        int at = terms.dim;
        for (RowPart part : update.parts) {
            if (part.rows == null) { // the kernels
                System.arraycopy(part.values, 0, whole, update.gram.length, part.values.length);
            } else {
                put(byRow, part.rows, part.values, part.width, at, terms.width);
                at += part.width;
            }
        }
        int[] rows = longest(byRow, terms.rows);
        double[] flat = new double[rows.length * terms.width + whole.length];
        for (int i = 0; i < rows.length; i++) {
            System.arraycopy(byRow.get(rows[i]), 0, flat, i * terms.width, terms.width);
        }
        System.arraycopy(whole, 0, flat, rows.length * terms.width, whole.length);
        double norm = Math.sqrt(Dense.dot(flat, 0, flat, 0, flat.length));
        int fits = rule.adapt == null ? 0 : norm <= rule.clip ? Terms.R : -Terms.R;
        double scale = (norm > 0 ? Math.min(1.0, rule.clip / norm) : 1.0) / terms.step;
        for (int i = 0; i < flat.length; i++) {
            flat[i] = Math.max(-Terms.R, Math.min(Terms.R, flat[i] * scale));
            if (Double.isNaN(flat[i])) {
                throw new FedRapException(FedRapException.Kind.NOT_FINITE, "an update has numbers only");
            }
        }
        long[] rounded = within(flat, uniform, terms.limit);
        int cut = rows.length * terms.width;
        return new SmallNumbers(
                rows, Arrays.copyOf(rounded, cut), Arrays.copyOfRange(rounded, cut, rounded.length), fits);
    }

    /** An answer, float32, in steps of 1/R, by as many uniform numbers in [0, 1). */
    static SmallNumbers of(byte[] answer, Terms terms, double[] uniform) {
        int[] words = Bytes.integers(answer);
        double[] flat = new double[words.length];
        for (int i = 0; i < flat.length; i++) {
            flat[i] = Terms.R * Math.max(-1.0, Math.min(1.0, (double) Float.intBitsToFloat(words[i])));
        }
        return new SmallNumbers(new int[0], new long[0], within(flat, uniform, terms.limit), 0);
    }

    /** Rounded, and shrunk until the squares are no more than that. */
    private static long[] within(double[] flat, double[] uniform, long limit) {
        long[] rounded = rounded(flat, uniform);
        while (squares(rounded) > limit) {
            for (int i = 0; i < flat.length; i++) {
                flat[i] *= 0.99;
            }
            rounded = rounded(flat, uniform);
        }
        return rounded;
    }

    private static void put(
            Map<Integer, double[]> byRow, int[] rows, double[] values, int count, int at, int width) {
        for (int i = 0; i < rows.length; i++) {
            double[] row = byRow.get(rows[i]);
            if (row == null) {
                row = new double[width];
                byRow.put(rows[i], row);
            }
            System.arraycopy(values, i * count, row, at, count);
        }
    }

    /** The rows of the largest norms, in ascending order. */
    private static int[] longest(Map<Integer, double[]> byRow, int most) {
        TopN top = new TopN(Math.min(most, byRow.size()));
        for (Map.Entry<Integer, double[]> one : byRow.entrySet()) {
            double[] row = one.getValue();
            top.offer(one.getKey(), Dense.dot(row, 0, row, 0, row.length));
        }
        int[] rows = top.rows();
        Arrays.sort(rows);
        return rows;
    }

    private static long[] rounded(double[] flat, double[] chance) {
        long[] out = new long[flat.length];
        for (int i = 0; i < out.length; i++) {
            out[i] = (long) Math.max(-Terms.R, Math.min(Terms.R, Math.floor(flat[i] + chance[i])));
        }
        return out;
    }

    static long squares(long[] numbers) {
        long sum = 0;
        for (long one : numbers) {
            sum += one * one;
        }
        return sum;
    }
}
