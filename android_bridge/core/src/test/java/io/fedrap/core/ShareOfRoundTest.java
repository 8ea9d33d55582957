package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** share_of_round and update_of_round: what a device computes before it quantises. */
class ShareOfRoundTest {
    @TestFactory
    Stream<DynamicTest> vectors() {
        return Vectors.each("share_of_round", ShareOfRoundTest::check);
    }

    private static void check(Vectors.Case one) {
        SharedMatrix common = Made.common(one.inner("model"));
        // These vectors are of the whole history alone, without what came next.
        Map<Object, Object> fields = new HashMap<>(one.inner("method").fields);
        fields.put("order", 0.0);
        RoundProblem problem =
                new RoundProblem(
                        common,
                        common.gram(null),
                        Made.history(one.inner("history")),
                        new SolveMethod(Made.fields(fields)));
        List<LocalShare> shares = new JvmTrainer().solve(problem.problems);
        Vectors.close(one.numbers("user"), shares.get(0).user());
        Vectors.close(one.number("loss"), shares.get(0).loss());
        RowUpdate update = problem.join(shares);
        Vectors.close(one.number("norm"), update.norm());
        Map<String, Object> rule = new HashMap<>();
        rule.put("clip", one.number("clip"));
        RowUpdate sent = update.clipped(new Privacy(Made.fields(rule)));
        assertArrayEquals(one.integers("rows"), sent.rows);
        Vectors.close(one.numbers("values"), sent.values);
        Vectors.close(one.numbers("triangle"), sent.gram);
        assertEquals(0, sent.fits);
    }

    @TestFactory
    Stream<DynamicTest> updates() {
        return Vectors.each(
                "update_of_round",
                one -> {
                    SharedMatrix common = Made.common(one.inner("model"));
                    RoundProblem problem =
                            new RoundProblem(
                                    common,
                                    common.gram(null),
                                    Made.history(one.inner("history")),
                                    Made.method(one.inner("method")));
                    List<LocalShare> shares = new JvmTrainer().solve(problem.problems);
                    Vectors.close(one.number("loss"), shares.get(0).loss());
                    Privacy rule = Made.privacy(one.inner("privacy"));
                    RowUpdate sent = problem.join(shares).clipped(rule);
                    assertArrayEquals(one.integers("rows"), sent.rows);
                    Vectors.close(one.numbers("values"), sent.values);
                    Vectors.close(one.numbers("triangle"), sent.gram);
                    assertEquals(one.integer("fits"), sent.fits);
                });
    }

    /** The whole of it: what leaves can be read, and is within the clip but for the rounding. */
    @Test
    void aShareIsClippedAndPadded() {
        Vectors.Case one = Vectors.cases("update_of_round").get(0);
        SharedMatrix common = Made.common(one.inner("model"));
        Map<String, Object> fields = new HashMap<>();
        fields.put("method", one.inner("method").fields);
        fields.put("privacy", Collections.singletonMap("clip", 2.0));
        Plan plan = Plan.decode(MsgPack.encode(fields));
        RoundShare share =
                RoundShare.compute(
                        plan,
                        common,
                        common.gram(null),
                        Made.history(one.inner("history")),
                        0.0,
                        new JvmTrainer(),
                        new SecureRandom());
        byte[] plaintext = share.plaintext(plan.privacy, new SecureRandom());
        assertEquals(512, plaintext.length);
        RowUpdate back = ShareReader.decode(plaintext, common.dim());
        assertArrayEquals(one.integers("rows"), back.rows);
        assertEquals(2.0, back.norm(), 0.1);
        Vectors.close(one.number("loss"), share.loss);
    }

    @Test
    void fractionsLieWithinZeroAndOne() {
        byte[] raw = new byte[24];
        Arrays.fill(raw, 8, 16, (byte) 255);
        raw[23] = (byte) 128;
        double[] made = RoundShare.fractions(raw);
        assertArrayEquals(new double[] {0.0, Math.nextDown(1.0), 0.5}, made);
    }

    @Test
    void aPlanOfAnotherDimensionIsRefused() {
        Vectors.Case one = Vectors.cases("share_of_round").get(0);
        SharedMatrix common = Made.common(one.inner("model"));
        SolveMethod wide = new SolveMethod(Made.fields(new HashMap<>()));
        History history = Made.history(one.inner("history"));
        FedRapException error =
                assertThrows(
                        FedRapException.class,
                        () -> new RoundProblem(common, common.gram(null), history, wide));
        assertEquals(FedRapException.Kind.WRONG_SHAPE, error.kind());
    }
}
