package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** What every trainer must do; a test of a trainer extends this. */
public abstract class TrainerContract {
    /** The trainer to test. */
    protected abstract LocalTrainer trainer();

    @Test
    void aCaseToFollowByHand() {
        // M = 1 + 2·1^2 = 3, x = 2·1/3, g = 2·(2/3 - 1)·2/3 = -4/9.
        LocalShare share = one(new ShareProblem(d(1), 0, d(2), d(1), 1));
        Vectors.close(d(2.0 / 3), share.user());
        Vectors.close(d(-4.0 / 9), share.gradients());
        Vectors.close(1.0 / 3, share.loss());
    }

    @TestFactory
    Stream<DynamicTest> vectorsOfShares() {
        return Vectors.each("share_of_round", one -> check(one, "clip"));
    }

    @TestFactory
    Stream<DynamicTest> vectorsOfUpdates() {
        return Vectors.each("update_of_round", one -> check(one, "privacy"));
    }

    private void check(Vectors.Case one, String how) {
        SharedMatrix common = Made.common(one.inner("model"));
        java.util.Map<Object, Object> method = new java.util.HashMap<>(one.inner("method").fields);
        Privacy rule;
        if (how.equals("clip")) { // of the whole history alone
            method.put("order", 0.0);
            rule = new Privacy(Made.fields(Collections.singletonMap("clip", one.number("clip"))));
        } else {
            rule = Made.privacy(one.inner("privacy"));
        }
        RoundProblem problem =
                new RoundProblem(
                        common,
                        common.gram(null),
                        Made.history(one.inner("history")),
                        new SolveMethod(Made.fields(method)));
        List<LocalShare> shares = trainer().solve(problem.problems);
        RowUpdate sent = problem.join(shares).clipped(rule);
        Vectors.close(one.number("loss"), shares.get(0).loss());
        Vectors.close(one.numbers("values"), sent.values);
        Vectors.close(one.numbers("triangle"), sent.gram);
    }

    @TestFactory
    Stream<DynamicTest> vectorsOfSequences() {
        return Vectors.each("sequence_of_round", this::checkSequence);
    }

    private void checkSequence(Vectors.Case one) {
        SharedMatrix common = Made.common(one.inner("model"));
        SolveMethod method = Made.method(one.inner("method"));
        History history = Made.history(one.inner("history"));
        double[] drawn = one.numbers("uniform");
        int[] used = {0};
        SequenceProblem asked =
                new SequenceProblem(
                        Made.sequence(one.inner("sequence")),
                        history,
                        method.sequence,
                        count -> {
                            used[0] += count;
                            return Arrays.copyOfRange(drawn, used[0] - count, used[0]);
                        });
        assertEquals(drawn.length, used[0]);
        SequenceAnswer answer = trainer().expect(asked);
        double loss = Arrays.stream(answer.surprise).average().orElse(0.0);
        Vectors.close(one.number("loss"), loss);
        RoundProblem problem = new RoundProblem(common, common.gram(null), history, method);
        RowUpdate update = problem.join(trainer().solve(problem.problems));
        RowUpdate sent =
                update.with(asked.parts(answer)).clipped(Made.privacy(one.inner("privacy")));
        assertArrayEquals(one.integers("rows"), sent.rows);
        Vectors.close(one.numbers("values"), sent.values);
        Vectors.close(one.numbers("triangle"), sent.gram);
        List<?> parts = (List<?>) one.get("parts");
        for (int i = 0; i < 3; i++) {
            Vectors.Case part = new Vectors.Case((java.util.Map<?, ?>) parts.get(i));
            if (sent.parts[i].rows != null) {
                assertArrayEquals(part.integers("rows"), sent.parts[i].rows);
            }
            Vectors.close(part.numbers("values"), sent.parts[i].values);
        }
    }

    @Test
    void catalogsOfMoreThanOneBlockAgreeWithPlainJava() {
        Random random = new Random(5);
        int size = 9000;
        int dim = 8;
        SequenceRows rows =
                new SequenceRows(
                        QuantizedRows.of(normal(random, size * dim, 0.5), dim, null),
                        QuantizedRows.of(normal(random, size * dim, 0.1), dim, null),
                        singles(normal(random, size, 1.0)),
                        singles(normal(random, 2 * dim, 1.0)));
        java.util.Map<String, Object> fields = new java.util.HashMap<>();
        fields.put("dim", dim);
        fields.put("taus", Arrays.asList(0.5, 4.0));
        int[] seen = random.ints(30, 0, size).toArray();
        double[] weights = new double[seen.length];
        Arrays.fill(weights, 1.0);
        SequenceProblem problem =
                new SequenceProblem(
                        rows,
                        new History(seen, weights),
                        new SequenceMethod(Made.fields(fields)),
                        count -> random.doubles(count).toArray());
        SequenceAnswer truth = new JvmTrainer().expect(problem);
        SequenceAnswer found = trainer().expect(problem);
        Vectors.close(truth.rows, found.rows);
        Vectors.close(truth.surprise, found.surprise);
    }

    private static double[] normal(Random random, int count, double spread) {
        double[] out = new double[count];
        for (int i = 0; i < count; i++) {
            out[i] = spread * random.nextGaussian();
        }
        return out;
    }

    private static float[] singles(double[] numbers) {
        float[] out = new float[numbers.length];
        for (int i = 0; i < out.length; i++) {
            out[i] = (float) numbers[i];
        }
        return out;
    }

    @Test
    void shortAndLongHistoriesOfAllWidths() {
        int seed = 0;
        for (int count : new int[] {0, 1, 2, 100, 1000}) {
            for (int dim : new int[] {1, 2, 17, 64}) {
                agrees(Collections.singletonList(problem(seed++, count, dim, 0, 0)));
            }
        }
    }

    @Test
    void extremeWeights() {
        for (int seed = 0; seed < 20; seed++) {
            agrees(Collections.singletonList(problem(seed, 40, 16, -6, 6)));
            agrees(Collections.singletonList(problem(seed, 40, 16, 6, 6)));
            agrees(Collections.singletonList(problem(seed, 40, 16, -6, -6)));
        }
    }

    @Test
    void manyAtOnceAnswerInTheirOrder() {
        List<ShareProblem> many = new ArrayList<>();
        for (int i = 0; i < 150; i++) {
            ShareProblem one = problem(i, i * 7 % 40, 8, 0, 0);
            // Most share a G, as those of a round do; some have another.
            double[] base = i % 20 == 0 ? one.base() : problem(1, 1, 8, 0, 0).base();
            many.add(new ShareProblem(one.own, 0, one.weights, base, 8));
        }
        agrees(many);
        assertEquals(0, trainer().solve(Collections.emptyList()).size());
    }

    @Test
    void nothingIsChangedAndTheAnswerIsTheSame() {
        ShareProblem problem = problem(5, 30, 8, -1, 1);
        double[] own = problem.own.clone();
        double[] weights = problem.weights.clone();
        double[] base = problem.base().clone();
        LocalShare first = one(problem);
        LocalShare second = one(problem);
        assertArrayEquals(first.user(), second.user());
        assertArrayEquals(first.gradients(), second.gradients());
        assertArrayEquals(own, problem.own);
        assertArrayEquals(weights, problem.weights);
        assertArrayEquals(base, problem.base());
    }

    @Test
    void severalThreadsMayUseIt() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try {
            List<Callable<Boolean>> calls = new ArrayList<>();
            for (int i = 0; i < 40; i++) {
                int seed = i;
                calls.add(
                        () -> {
                            agrees(Collections.singletonList(problem(seed, 20, 8, 0, 0)));
                            return true;
                        });
            }
            for (Future<Boolean> done : threads.invokeAll(calls)) {
                done.get();
            }
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void aModelWithoutFiniteAnswerIsRefused() {
        double[][] bases = {d(0, 0, 0, 0), d(Double.NaN, 0, 0, 1), d(1, 0, 0, -1)};
        double[][] rows = {d(0, 0), d(1, 1), d(0, 1)};
        for (int i = 0; i < bases.length; i++) {
            ShareProblem broken = new ShareProblem(rows[i], 0, d(1), bases[i], 2);
            FedRapException error = assertThrows(FedRapException.class, () -> one(broken));
            assertEquals(FedRapException.Kind.BROKEN_MODEL, error.kind());
        }
    }

    private LocalShare one(ShareProblem problem) {
        return trainer().solve(Collections.singletonList(problem)).get(0);
    }

    /** With the plain trainer, which the vectors of float64 NumPy hold to the formulas. */
    private void agrees(List<ShareProblem> problems) {
        List<LocalShare> expected = new JvmTrainer().solve(problems);
        List<LocalShare> found = trainer().solve(problems);
        assertEquals(expected.size(), found.size());
        for (int i = 0; i < expected.size(); i++) {
            Vectors.close(expected.get(i).user, found.get(i).user);
            Vectors.close(expected.get(i).gradients, found.get(i).gradients);
            Vectors.close(expected.get(i).loss, found.get(i).loss);
        }
    }

    /** A problem as a release gives it, weights 5·10^e with e between two exponents. */
    private static ShareProblem problem(int seed, int count, int dim, double low, double high) {
        Random random = new Random(seed);
        double[] catalogue = random.doubles(200L * dim, -0.3, 0.3).toArray();
        double[] base = new double[dim * dim];
        for (int row = 0; row < 200; row++) {
            Dense.addSquare(base, catalogue, row * dim, dim, 1.0);
        }
        Dense.mirror(base, dim);
        for (int i = 0; i < dim; i++) {
            base[i * dim + i] += 10.0;
        }
        double[] own = random.doubles((long) count * dim, -0.3, 0.3).toArray();
        double[] weights = new double[count];
        for (int i = 0; i < count; i++) {
            weights[i] = 5.0 * Math.pow(10.0, low + (high - low) * random.nextDouble());
        }
        return new ShareProblem(own, 0, weights, base, dim);
    }

    private static double[] d(double... numbers) {
        return Arrays.copyOf(numbers, numbers.length);
    }
}
