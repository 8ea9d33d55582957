package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** solve, ranking, explain: u, D, the list and its reasons. */
class SolveTest {
    @TestFactory
    Stream<DynamicTest> solve() {
        return Vectors.each(
                "solve",
                one -> {
                    if (!one.valid()) {
                        one.refuses(() -> Made.representation(one));
                        return;
                    }
                    UserRepresentation representation = Made.representation(one);
                    assertArrayEquals(one.integers("items"), representation.items);
                    Vectors.close(one.numbers("weights"), representation.weights);
                    Vectors.close(one.numbers("user"), representation.user);
                    Vectors.close(one.numbers("personal"), representation.offsets);
                    SharedMatrix common = Made.common(one.inner("model"));
                    double[] all = common.take(IntStream.range(0, common.size()).toArray());
                    double[] shared = new double[common.size()];
                    for (int row = 0; row < shared.length; row++) {
                        shared[row] = representation.shared(all, row * common.dim());
                    }
                    Vectors.close(one.numbers("shared"), shared);
                });
    }

    @TestFactory
    Stream<DynamicTest> ranking() {
        return Vectors.each(
                "ranking",
                one -> {
                    SharedMatrix common = Made.common(one.inner("model"));
                    boolean[] allowed = new boolean[common.size()];
                    Arrays.fill(allowed, true);
                    for (int row : one.integers("hidden")) {
                        allowed[row] = false;
                    }
                    int n = (int) one.integer("n");
                    Ranking ranking = Ranking.of(common, Made.representation(one), null, n, allowed);
                    assertArrayEquals(one.integers("rows"), ranking.rows);
                    Vectors.close(one.numbers("shared"), ranking.shared);
                    Vectors.close(one.numbers("personal"), ranking.personal);
                });
    }

    @TestFactory
    Stream<DynamicTest> diversity() {
        return Vectors.each(
                "diversity",
                one -> {
                    SharedMatrix common = Made.common(one.inner("model"));
                    double[] theirs = common.take(one.integers("rows"));
                    int[] places =
                            Ranking.diversified(
                                    theirs, common.dim(), one.numbers("scores"),
                                    (int) one.integer("n"), one.number("diversity"));
                    assertArrayEquals(one.integers("places"), places);
                });
    }

    @TestFactory
    Stream<DynamicTest> explain() {
        return Vectors.each(
                "explain",
                one -> {
                    SharedMatrix common = Made.common(one.inner("model"));
                    int row = (int) one.integer("row");
                    UserRepresentation representation = Made.representation(one);
                    Ranking reasons = Ranking.explain(common, representation, null, row);
                    assertArrayEquals(one.integers("items"), reasons.rows);
                    Vectors.close(one.numbers("shared"), reasons.shared);
                    Vectors.close(one.numbers("personal"), reasons.personal);
                    double whole = representation.shared(common.take(new int[] {row}), 0);
                    assertEquals(whole, Arrays.stream(reasons.shared).sum(), 1e-12);
                });
    }

    /** The heap gives what sorting everything gives, ties in order of row. */
    @Test
    void theBestAreThoseOfAFullSort() {
        Random random = new Random(3);
        for (int round = 0; round < 200; round++) {
            double[] scores = new double[random.nextInt(60)];
            for (int i = 0; i < scores.length; i++) {
                scores[i] = random.nextInt(8) == 0 ? Double.NaN : random.nextInt(6);
            }
            int n = random.nextInt(70);
            TopN top = new TopN(n);
            for (int i = 0; i < scores.length; i++) {
                top.offer(i, scores[i]);
            }
            int[] expected =
                    IntStream.range(0, scores.length)
                            .filter(i -> scores[i] == scores[i])
                            .boxed()
                            .sorted((a, b) -> Double.compare(scores[b], scores[a]))
                            .mapToInt(i -> i)
                            .limit(n)
                            .toArray();
            assertArrayEquals(expected, top.rows());
        }
    }

    @Test
    void similarItemsHaveTheLargestCosine() {
        SharedMatrix common = Made.common(Vectors.cases("solve").get(0).inner("model"));
        boolean[] allowed = new boolean[common.size()];
        Arrays.fill(allowed, true);
        Ranking near = Ranking.similar(common, 0, 10, allowed);
        // Row 1 is nearly row 0, row 4 its negative, row 5 zeros, which are like nothing.
        assertArrayEquals(new int[] {1, 2, 3, 4}, near.rows);
        assertEquals(120 / Math.sqrt(120 * 120 + 30 * 30), near.shared[0], 1e-6);
        assertEquals(-1.0, near.shared[3], 1e-6);
        allowed[1] = false;
        assertArrayEquals(new int[] {2}, Ranking.similar(common, 0, 1, allowed).rows);
        assertEquals(0, Ranking.similar(common, 5, 3, allowed).rows.length);
    }

    @Test
    void productsAndPowersAgree() {
        for (double x : new double[] {1e-300, 1e-9, 0.3, 0.999, 1.0}) {
            for (double p : new double[] {1e-3, 0.5, 1, 2, 3.5, 4, 16, 17, 1000}) {
                double expected = Math.pow(x, p);
                assertEquals(expected, UserRepresentation.raised(x, p), 1e-14 * expected);
            }
        }
    }

    /** Rows in many blocks, more than the shortlist: the same as scoring all. */
    @Test
    void aLargeCatalogueIsRankedLikeASmallOne() {
        Random random = new Random(5);
        int size = 5000;
        byte[] values = new byte[size * 8];
        random.nextBytes(values);
        float[] scales = new float[size];
        Arrays.fill(scales, 0.01f);
        SharedMatrix common = new SharedMatrix(1, new QuantizedRows(values, scales, 8));
        double[] user = random.doubles(8).map(x -> x - 0.5).toArray();
        boolean[] allowed = new boolean[size];
        for (int i = 0; i < size; i++) {
            allowed[i] = i % 3 != 0;
        }
        int[] best = TopN.best(common.scores(user, 0.0, null, allowed), 50);
        double[] rows = common.take(best);
        double last = Double.POSITIVE_INFINITY;
        for (int i = 0; i < 50; i++) {
            double score = Dense.dot(rows, i * 8, user, 0, 8);
            assertTrue(allowed[best[i]] && score <= last + 1e-5);
            last = score;
        }
        double[] all = common.take(IntStream.range(0, size).toArray());
        double limit = last;
        long better =
                IntStream.range(0, size)
                        .filter(i -> allowed[i] && Dense.dot(all, i * 8, user, 0, 8) > limit + 1e-5)
                        .count();
        assertTrue(better < 50);
    }
}
