package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** ledger.json: what a device took part in, an offer, and what it says to it. */
class LedgerTest {
    @TestFactory
    Stream<DynamicTest> vectors() {
        return Vectors.each("ledger", LedgerTest::check);
    }

    private static void check(Vectors.Case one) {
        List<Ledger.Entry> entries = new ArrayList<>();
        for (Object stored : (List<?>) one.get("entries")) {
            Vectors.Case entry = new Vectors.Case((Map<?, ?>) stored);
            Privacy rule = Made.privacy(entry.inner("privacy"));
            entries.add(
                    new Ledger.Entry(entry.integer("step"), new byte[16], entry.number("at"), rule));
        }
        Vectors.Case floor = one.inner("floor");
        Ledger.Floor least = new Ledger.Floor();
        least.separation = floor.integer("separation");
        least.cap = floor.integer("cap");
        least.minUpdates = floor.integer("min_updates");
        least.minNoise = floor.number("min_noise");
        least.maxEpsilon = floor.number("max_epsilon");
        least.maxClip = floor.number("max_clip");
        least.windowDays = floor.number("window_days");
        least.maxLifetimeEpsilon = floor.number("max_lifetime_epsilon");
        least.maxQuestionEpsilon = floor.number("max_question_epsilon");
        least.check();
        Plan plan = Plan.decode(MsgPack.encode(one.inner("plan").fields));
        assertEquals(
                one.get("answer"),
                Ledger.whyNot(entries, one.integer("step"), plan, least, one.number("now"), Double.POSITIVE_INFINITY));
        assertEquals(one.integer("charged"), Ledger.chargedSteps(entries));
        Vectors.close(one.number("epsilon"), Ledger.epsilon(entries));
    }

    @Test
    void anEntryComesBackAsItWasWritten() {
        for (Vectors.Case one : Vectors.cases("update_of_round")) {
            Privacy rule = Made.privacy(one.inner("privacy"));
            byte[] round = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
            Ledger.Entry entry = new Ledger.Entry(7, round, 1.5e9, rule);
            byte[] raw = MsgPack.encode(entry.toMap());
            Ledger.Entry back = Ledger.Entry.from(Fields.ofValue(raw, 4096));
            assertArrayEquals(raw, MsgPack.encode(back.toMap()));
        }
    }
}
