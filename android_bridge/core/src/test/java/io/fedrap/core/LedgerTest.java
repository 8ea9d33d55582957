package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
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
    void aDeviceRestsForItsShareOfTheTimeThatItsRoundsAreSpreadOver() {
        Privacy rule =
                new Privacy(
                        Fields.ofValue(
                                MsgPack.encode(Collections.singletonMap("spread_days", 30.0)), 4096));
        assertEquals(30.0, rule.toMap().get("spread_days"));
        Ledger.Entry one = new Ledger.Entry(7, new byte[16], 1e9, rule);
        List<Ledger.Entry> entries = Collections.singletonList(one);
        assertEquals(3 * 86_400.0, Ledger.untilRested(entries, 1e9 - 5)); // the clock was set back
        assertEquals(86_400.0, Ledger.untilRested(entries, 1e9 + 2 * 86_400));
        assertEquals(0.0, Ledger.untilRested(entries, 1e9 + 3 * 86_400));
        assertEquals(0.0, Ledger.untilRested(new ArrayList<>(), 1e9));
    }

    @Test
    void kRenewsWithThePlansWindowHoweverLongTheFloorsIs() {
        Map<String, Object> privacy = new HashMap<>();
        privacy.put("cap", 2);
        privacy.put("separation", 1);
        privacy.put("window_days", 30.0);
        Privacy rule = new Privacy(Fields.ofValue(MsgPack.encode(privacy), 4096));
        Map<String, Object> fields = new HashMap<>();
        fields.put("privacy", rule.toMap());
        fields.put("min_updates", 50);
        Plan plan = Plan.decode(MsgPack.encode(fields));
        Ledger.Floor floor = new Ledger.Floor();
        floor.separation = 1;
        floor.maxEpsilon = Double.POSITIVE_INFINITY;
        List<Ledger.Entry> entries = new ArrayList<>();
        entries.add(new Ledger.Entry(1, new byte[16], 0, rule));
        entries.add(new Ledger.Entry(3, new byte[16], 0, rule));
        double day = 86_400.0;
        double asked = Double.POSITIVE_INFINITY;
        assertEquals("ledger-cap", Ledger.whyNot(entries, 5, plan, floor, 29 * day, asked));
        assertNull(Ledger.whyNot(entries, 5, plan, floor, 31 * day, asked));
        floor.cap = 2; // in a year, as its own window says
        assertEquals("ledger-cap", Ledger.whyNot(entries, 5, plan, floor, 31 * day, asked));
        assertNull(Ledger.whyNot(entries, 5, plan, floor, 366 * day, asked));
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
