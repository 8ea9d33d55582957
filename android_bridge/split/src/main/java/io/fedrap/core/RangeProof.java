package io.fedrap.core;

import java.util.Arrays;

/**
 * What a report holds is small, shown to two servers of which none sees it: a fully linear proof (Boneh,
 * Boyle, Corrigan-Gibbs, Gilboa and Ishai 2019) as in Prio3.
 *
 * <p>The n numbers lie on L wires in N calls, number i on wire i mod L in call i div L; one more wire has the
 * digits of the slack and the clipping number. Claimed is
 *
 * <pre>
 * (1) every number on every wire is one of -R … R:   P(x) = x·prod_{j=1..R} (x² - j²) = 0
 * (2) sum x² + slack = Q
 * </pre>
 *
 * <p>Wire l is a polynomial w_l of degree N through a random number at 0 and its calls at 1 … N. The proof is
 * those random numbers and the values at 0 … 63N and 0 … 2N of p_1 = sum_l r^l·P(w_l) and
 * p_2 = sum_{l&lt;L} w_l². There are two, with other random numbers.
 */
final class RangeProof {
    static final int PROOFS = 2;
    private static final int DEGREE = 2 * Terms.R + 1; // of P

    private static final long[] G = coefficients();

    private RangeProof() {}

    /** Words of one proof: a random number for each wire, p_1, p_2. */
    static int words(Terms terms) {
        return terms.wires + 1 + DEGREE * terms.calls + 1 + 2 * terms.calls + 1;
    }

    /** Both proofs, in [0, p). */
    static long[] of(Terms terms, long[] numbers, long[] extra, byte[] joint, byte[] seed) {
        int calls = terms.calls;
        int wires = terms.wires + 1;
        long[][] beyond = weightsBeyond(calls);
        long[] out = new long[PROOFS * words(terms)];
        int at = 0;
        for (byte number = 0; number < PROOFS; number++) {
            byte[] which = {number};
            long[] first = Xof.numbers(Xof.kdf("wires", seed, which), wires);
            long r = Xof.numbers(Xof.kdf("joint numbers", joint, which), 3)[0];
            long[][] points = points(terms, first, numbers, extra);
            long[] one = new long[DEGREE * calls + 1]; // p_1
            long[] two = new long[2 * calls + 1]; // p_2
            long[] row = new long[wires];
            for (int point = 0; point < one.length; point++) {
                long[] values = point <= calls ? points[point] : carried(beyond[point - calls - 1], points, row);
                long power = 1;
                for (int wire = 0; wire < wires; wire++) {
                    long square = Xof.mul(values[wire], values[wire]);
                    one[point] += Xof.mul(power, range(values[wire], square));
                    power = Xof.mul(power, r);
                    if (point < two.length && wire < wires - 1) {
                        two[point] += square;
                    }
                }
                one[point] %= Xof.P; // a sum of fewer than 2^31 numbers below p
                if (point < two.length) {
                    two[point] %= Xof.P;
                }
            }
            for (long[] part : new long[][] {first, one, two}) {
                System.arraycopy(part, 0, out, at, part.length);
                at += part.length;
            }
        }
        return out;
    }

    /** The wires at 0 … N. */
    private static long[][] points(Terms terms, long[] first, long[] numbers, long[] extra) {
        long[][] points = new long[terms.calls + 1][terms.wires + 1];
        points[0] = first;
        for (int i = 0; i < numbers.length; i++) {
            points[1 + i / terms.wires][i % terms.wires] = numbers[i];
        }
        for (int i = 0; i < extra.length; i++) {
            points[1 + i][terms.wires] = extra[i];
        }
        return points;
    }

    /** The wires at another point: a weighted sum of those at 0 … N. */
    private static long[] carried(long[] weights, long[][] points, long[] row) {
        Arrays.fill(row, 0);
        for (int at = 0; at < weights.length; at++) {
            long weight = weights[at];
            long[] point = points[at];
            for (int wire = 0; wire < row.length; wire++) {
                long product = weight * point[wire];
                row[wire] += (product & Xof.P) + (product >>> 31); // below 2^32: 2^30 of them fit
            }
        }
        for (int wire = 0; wire < row.length; wire++) {
            row[wire] %= Xof.P;
        }
        return row;
    }

    /**
     * P of a number; with y = x², P(x) = x·G(y) (Paterson and Stockmeyer 1973). G has degree 31: eight times
     * four coefficients, put together by powers of y⁴. A step adds up four products below 2^62, unsigned, and
     * what two folds leave of that is p + 4 at most.
     */
    private static long range(long value, long y) {
        long second = Xof.mul(y, y);
        long third = Xof.mul(second, y);
        long fourth = Xof.mul(second, second);
        long result = 0;
        for (int at = G.length - 4; at >= 0; at -= 4) {
            result = result * fourth + G[at] + G[at + 1] * y + G[at + 2] * second + G[at + 3] * third;
            result = (result & Xof.P) + (result >>> 31);
            result = (result & Xof.P) + (result >>> 31);
        }
        return Xof.mul(result % Xof.P, value);
    }

    /** Coefficients of G(y) = prod_{j=1..R} (y - j²), the lowest first. */
    private static long[] coefficients() {
        long[] found = new long[Terms.R + 1];
        found[0] = 1;
        for (int j = 1; j <= Terms.R; j++) {
            for (int at = j; at >= 0; at--) {
                long below = at == 0 ? 0 : found[at - 1];
                found[at] = Xof.field(below - Xof.mul(j * j, found[at]));
            }
        }
        return found;
    }

    /** Lagrange weights that carry values at 0 … N to N+1 … 63N. */
    private static long[][] weightsBeyond(int calls) {
        int count = calls + 1;
        long[] below = new long[count]; // 1/prod_{j != i} (i - j)
        for (int i = 0; i < count; i++) {
            long product = 1;
            for (int j = 0; j < count; j++) {
                product = j == i ? product : Xof.mul(product, Xof.field(i - j));
            }
            below[i] = Xof.power(product, Xof.P - 2);
        }
        long[][] weights = new long[(DEGREE - 1) * calls][count];
        for (int row = 0; row < weights.length; row++) {
            int point = count + row;
            long[] behind = new long[count + 1];
            behind[count] = 1;
            for (int i = count - 1; i >= 0; i--) {
                behind[i] = Xof.mul(behind[i + 1], point - i);
            }
            long ahead = 1;
            for (int i = 0; i < count; i++) {
                weights[row][i] = Xof.mul(Xof.mul(ahead, behind[i + 1]), below[i]);
                ahead = Xof.mul(ahead, point - i);
            }
        }
        return weights;
    }
}
