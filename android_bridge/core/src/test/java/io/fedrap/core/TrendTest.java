package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The trend, by the vectors that Python wrote. */
class TrendTest {
    @TestFactory
    Stream<DynamicTest> trends() {
        return Vectors.each(
                "trend",
                one -> {
                    switch (one.text("of")) {
                        case "share":
                            share(one);
                            break;
                        case "release":
                            release(one);
                            break;
                        default:
                            ranking(one);
                    }
                });
    }

    private static void share(Vectors.Case one) {
        SolveMethod method = Made.method(one.inner("method"));
        History history = Made.history(one.inner("history"));
        RowPart part =
                Trend.lately(history, one.number("now"), method.halfDays, method.trendScale);
        assertEquals("lately", part.name);
        assertArrayEquals(one.integers("rows"), part.rows);
        Vectors.close(one.numbers("values"), part.values);
    }

    private static void release(Vectors.Case one) {
        byte[] raw = one.bytes("bytes");
        if (!one.valid()) {
            one.refuses(() -> read(one, raw));
            return;
        }
        SharedMatrix found = read(one, raw);
        Trend trend = Made.trend(one.inner("trend"));
        byte[] hash = SharedMatrix.hash(Made.common(one.inner("items")).items, null, trend);
        assertEquals(one.text("hash"), Vectors.hex(hash));
        assertArrayEquals(trend.raw, found.trend.raw);
    }

    private static SharedMatrix read(Vectors.Case one, byte[] raw) {
        if (!one.fields.containsKey("old")) {
            return SharedMatrix.of(ReleaseMessage.decode(raw, 1 << 20));
        }
        return held(one.inner("old"), "items").apply(ReleaseMessage.decode(raw, 1 << 20));
    }

    private static SharedMatrix held(Vectors.Case one, String items) {
        return new SharedMatrix(
                1, Made.common(one.inner(items)).items, null, Made.trend(one.inner("trend")));
    }

    private static void ranking(Vectors.Case one) {
        SharedMatrix common = held(one, "model");
        UserRepresentation mine =
                new UserRepresentation(
                        common,
                        common.gram(null),
                        Made.history(one.inner("history")),
                        Made.scoring(one.inner("scoring")));
        boolean[] allowed = new boolean[common.size()];
        Arrays.fill(allowed, true);
        for (int row : one.integers("hidden")) {
            allowed[row] = false;
        }
        Ranking found = Ranking.of(common, mine, null, (int) one.integer("n"), allowed);
        assertArrayEquals(one.integers("rows"), found.rows);
        Vectors.close(one.numbers("shared"), found.shared);
        Vectors.close(one.numbers("personal"), found.personal);
        Vectors.close(one.numbers("trend_parts"), found.trend);
        Ranking why = Ranking.explain(common, mine, null, found.rows[0]);
        Vectors.close(one.number("reason_trend"), why.trend[0]);
    }
}
