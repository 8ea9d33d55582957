package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.security.KeyPair;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** Reports for two servers: split.json byte for byte, and what an app that demands them refuses. */
class SplitTest {
    @TempDir File folder;

    @TestFactory
    Stream<DynamicTest> vectors() {
        return Vectors.each("split", SplitTest::check);
    }

    private static void check(Vectors.Case one) {
        Plan plan = Plan.decode(MsgPack.encode(one.inner("plan").fields));
        Terms terms = new Terms(one.bytes("round"), plan, (int) one.integer("items"));
        int[][][] places = terms.places(new int[] {0, 1, 2});
        List<?> expected = (List<?>) one.get("places");
        for (int item = 0; item < 3; item++) {
            for (int table = 0; table < Terms.TABLES; table++) {
                List<?> place = (List<?>) ((List<?>) expected.get(item)).get(table);
                assertEquals((Long) place.get(0), (long) places[table][0][item]);
                assertEquals((Long) place.get(1), (long) places[table][1][item]);
            }
        }
        SmallNumbers numbers = SmallNumbers.of(update(one, plan), terms, one.numbers("uniform"));
        assertArrayEquals(one.integers("number_rows"), numbers.rows);
        assertArrayEquals(one.numbers("number_values"), doubles(numbers.values));
        assertArrayEquals(one.numbers("number_whole"), doubles(numbers.whole));
        assertEquals(one.integer("fits"), numbers.fits);
        Report report = new Report(terms, numbers, one.bytes("secret"));
        assertEquals(one.text("report"), Vectors.hex(report.id));
        assertEquals(one.text("helper").substring(0, 64), Vectors.hex(report.helper).substring(0, 64));
        assertEquals(one.text("public"), Vectors.hex(report.open));
        assertEquals(one.text("leader"), Vectors.hex(report.leader));
        assertEquals(one.text("helper"), Vectors.hex(report.helper));
    }

    @TestFactory
    Stream<DynamicTest> answers() {
        return Vectors.each("split_answers", SplitTest::checkAnswer);
    }

    private static void checkAnswer(Vectors.Case one) {
        double[] said = one.numbers("answer");
        float[] floats = new float[said.length];
        for (int i = 0; i < said.length; i++) {
            floats[i] = (float) said[i];
        }
        Terms terms = new Terms(one.bytes("question"), said.length, one.integer("limit"));
        SmallNumbers numbers = SmallNumbers.of(Bytes.bytes(floats), terms, one.numbers("uniform"));
        assertArrayEquals(one.numbers("whole"), doubles(numbers.whole));
        Report report = new Report(terms, numbers, one.bytes("secret"));
        assertEquals(one.text("report"), Vectors.hex(report.id));
        assertEquals(one.text("public"), Vectors.hex(report.open));
        assertEquals(one.integer("leader_bytes"), report.leader.length);
        assertEquals(one.text("leader"), Vectors.hex(Bytes.sha256(report.leader)));
        assertEquals(one.text("helper"), Vectors.hex(report.helper));
    }

    private static double[] doubles(long[] numbers) {
        return Arrays.stream(numbers).asDoubleStream().toArray();
    }

    private static RowUpdate update(Vectors.Case one, Plan plan) {
        String[] names = {"inputs", "outputs", "kernels", "lately"};
        List<RowPart> parts = new ArrayList<>();
        for (Object given : (List<?>) one.get("parts")) {
            Vectors.Case part = new Vectors.Case((Map<?, ?>) given);
            String name = names[parts.size()];
            int[] rows = part.integers("rows");
            double[] values = part.numbers("values");
            boolean whole = name.equals("kernels");
            parts.add(new RowPart(name, whole ? null : rows, values, values.length / rows.length));
        }
        return new RowUpdate(
                one.integers("rows"), one.numbers("values"), one.numbers("gram"), plan.method().dim, 0,
                parts.toArray(new RowPart[0]));
    }

    private static Map<String, Object> plan(Object... split) {
        return Export.map(
                "method", Export.map("name", "solve", "dim", 4), "privacy", Export.map("clip", 10.0),
                "split", Export.map(split));
    }

    /** Whatever the history, all reports of a round have one length, and no slot has two rows. */
    @Test
    void lengthsTellNothingAndEveryRowHasASlotOfItsOwn() {
        Plan plan = Plan.decode(MsgPack.encode(plan("rows", 20)));
        Terms terms = new Terms(new byte[16], plan, 500);
        Random random = new Random(3);
        Set<Integer> lengths = new HashSet<>();
        for (int count : new int[] {0, 1, 7, 20, 60}) {
            int[] rows = random.ints(0, 500).distinct().limit(count).sorted().toArray();
            double[] values = random.doubles(count * 4).map(x -> x - 0.5).toArray();
            RowUpdate update = new RowUpdate(rows, values, new double[10], 4, 0);
            double[] uniform = random.doubles(SmallNumbers.uniformCount(terms)).toArray();
            SmallNumbers numbers = SmallNumbers.of(update, terms, uniform);
            assertTrue(numbers.rows.length <= 20);
            assertTrue(
                    SmallNumbers.squares(numbers.values) + SmallNumbers.squares(numbers.whole)
                            <= terms.limit);
            byte[] secret = new byte[32];
            random.nextBytes(secret);
            Report report = new Report(terms, numbers, secret);
            lengths.add(report.open.length);
            lengths.add(-report.leader.length);
            assertEquals(64, report.helper.length);
            int[][][] places = terms.places(numbers.rows);
            int[] slots = terms.assigned(places, numbers.rows.length);
            int placed = (int) Arrays.stream(slots).filter(slot -> slot >= 0).distinct().count();
            assertEquals(numbers.rows.length, placed, "nothing is lost at 1.28 slots a row");
        }
        assertEquals(2, lengths.size(), "" + lengths);
    }

    @Test
    void aSplitThatIsNoneIsRefused() {
        for (Object[] bad : new Object[][] {
            {"rows", 0}, {"rows", 2001}, {"peak", 0.001}, {"peak", 2.0}, {"gram_scale", 0.0},
            {"least", 1}, {"colour", 1}
        }) {
            Plan plan = Plan.decode(MsgPack.encode(plan(bad)));
            FedRapException error =
                    assertThrows(FedRapException.class, () -> new Terms(new byte[16], plan, 5));
            assertEquals(FedRapException.Kind.MALFORMED_MESSAGE, error.kind());
        }
        for (String bad : new String[] {null, "", "04", "not a key"}) {
            IllegalArgumentException error =
                    assertThrows(IllegalArgumentException.class, () -> new Split(bad));
            assertTrue(error.getMessage().startsWith("helper: a helper is the line of hex"));
        }
    }

    /** A coordinator whose plan has split, with a helper that signs. */
    private static final class Pair extends MadeCoordinator {
        final KeyPair identity = P256.generate();
        final byte[] helperKey = P256.point(P256.generate().getPublic());
        KeyPair signs = identity;
        boolean split = true;

        @Override
        byte[] rawOffer() {
            Fields plain = Fields.ofMessage(super.rawOffer(), 8192, "offer");
            Map<String, Object> fields = Fields.start("offer");
            plain.asMap().forEach((name, value) -> fields.put((String) name, value));
            if (split) {
                Map<String, Object> plan =
                        Export.map(
                                "method", method, "privacy", privacy, "min_updates", minUpdates, "split",
                                Export.map("rows", 5, "peak", 0.5));
                fields.put("plan", MsgPack.encode(plan));
                byte[] signed =
                        Bytes.framed(
                                "fedrap/2 helper\n", TASK, plain.id16("round"),
                                Bytes.bigEndian(plain.count("step"), 4), plain.digest("model"),
                                Bytes.sha256((byte[]) fields.get("plan")), helperKey);
                fields.put(
                        "helper",
                        Export.map(
                                "name", "a partner", "seal_key", helperKey, "seal_id",
                                Arrays.copyOf(Bytes.sha256(helperKey), 8), "signature",
                                Signer.sign(signs.getPrivate(), signed)));
            }
            return MsgPack.encode(fields);
        }
    }

    private Config config(MadeCoordinator coordinator) {
        Config config = new Config(folder).token("a token");
        config.transport = coordinator;
        return config;
    }

    private static RoundReport round(Config config) {
        try (FedRap device = FedRap.open(config)) {
            device.consent(true, "v1");
            device.record("item-1");
            RoundReport report = device.runRound();
            assertEquals(report.joined ? 1 : 0, device.status().rounds);
            return report;
        }
    }

    @Test
    void anAppThatDemandsTwoServersRefusesOneAnotherHelperAndTheOtherWayRound() {
        Pair pair = new Pair();
        Config config = config(pair);
        assertEquals(Eligibility.ANOTHER_AGGREGATION, round(config).blockedBy, "the app pins none");
        config.aggregation(new Split(Bytes.hex(P256.point(pair.identity.getPublic()))));
        pair.split = false;
        assertEquals(Eligibility.ANOTHER_AGGREGATION, round(config).blockedBy);
        pair.split = true;
        pair.signs = P256.generate();
        assertEquals(Eligibility.ANOTHER_HELPER, round(config).blockedBy);
        pair.signs = pair.identity;
        pair.helperKey[64] ^= 1; // no point of the curve: signed, and cannot be sealed to
        assertFalse(round(config).joined);
        pair.helperKey[64] ^= 1;
        assertTrue(pair.sent.isEmpty());
        assertTrue(round(config).joined);
        Fields sent = Fields.ofMessage(pair.sent.get(0), 1 << 20, "split-update");
        assertEquals(145, sent.bytes("helper").length);
        try (FedRap device = FedRap.open(config)) {
            Status status = device.status();
            assertEquals("split", status.aggregation);
            assertEquals(Bytes.hex(P256.point(pair.identity.getPublic())), status.helper);
            assertTrue(status.experimental);
            assertTrue(
                    status.privacy.trusted.containsKey("the coordinator and the helper together"));
        }
        config.aggregation(null);
        try (FedRap device = FedRap.open(config)) {
            assertEquals("sealed", device.status().aggregation);
            assertNull(device.status().helper);
            assertEquals(
                    Collections.singleton("the aggregator process"),
                    Collections.singleton(device.status().privacy.trusted.keySet().iterator().next()));
        }
    }
}
