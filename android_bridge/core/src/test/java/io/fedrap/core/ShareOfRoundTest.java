package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashMap;
import java.util.Map;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Test;

/** share_of_round: what a device computes before it quantises. */
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
                        common.gram(),
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
        Vectors.close(one.numbers("triangle"), sent.triangle);
        assertEquals(0, sent.fits);
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
                        () -> new RoundProblem(common, common.gram(), history, wide));
        assertEquals(FedRapException.Kind.WRONG_SHAPE, error.kind());
    }
}
