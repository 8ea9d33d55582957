package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** answers.json, lists.json, trials.json and the questions of codec.json: numbers to 1e-12, bytes exactly. */
class AnswersTest {
    @TestFactory
    Stream<DynamicTest> answers() {
        return Vectors.each("answers", AnswersTest::check);
    }

    private static void check(Vectors.Case one) {
        switch (one.comment().split("[ :]")[0]) {
            case "gains":
                assertArrayEquals(one.numbers("gains"), Gains.of((int) one.integer("rank")), 1e-12);
                return;
            case "sums":
                sums(one);
                return;
            case "answer":
                answer(one);
                return;
            default:
                Question asked = question("question", one.bytes("question"));
                assertEquals(one.number("at"), asked.moment(one.bytes("private_key")), 1e-6);
        }
    }

    private static void sums(Vectors.Case one) {
        double[] sums = null;
        for (Object pair : (List<?>) one.get("ranks")) {
            int[] ranks = ((List<?>) pair).stream().mapToInt(rank -> ((Long) rank).intValue()).toArray();
            sums = Gains.with(sums, ranks);
        }
        assertEquals(one.integer("count"), sums[0]);
        for (String name : Question.METRICS) {
            assertArrayEquals(one.inner("means").numbers(name), Gains.means(sums, name), 1e-12);
        }
    }

    private static void answer(Vectors.Case one) {
        int[] layout = one.integers("layout");
        List<?> given = (List<?>) one.get("gains");
        double[][] gains = new double[given.size()][];
        for (int i = 0; i < gains.length; i++) {
            List<?> lines = (List<?>) given.get(i);
            gains[i] =
                    lines == null
                            ? null
                            : lines.stream().mapToDouble(x -> ((Number) x).doubleValue()).toArray();
        }
        byte[] made = Question.vector(layout[1], layout[2], 0, false, gains, (int) one.integer("group"));
        assertEquals(one.text("answer"), Vectors.hex(made));
    }

    @TestFactory
    Stream<DynamicTest> whatListsConsistOf() {
        return Vectors.each("lists", AnswersTest::lists);
    }

    private static void lists(Vectors.Case one) {
        List<String> items = new java.util.ArrayList<>();
        for (Object item : (List<?>) one.get("items")) {
            items.add((String) item);
        }
        double[] lines = Lists.lines(one.number("popular"), items, one.bytes("question"), 16);
        Map<?, ?> buckets = (Map<?, ?>) one.get("buckets");
        for (int bucket = 0; bucket < 16; bucket++) {
            Object share = buckets.get("" + bucket);
            assertEquals(share == null ? 0.0 : (Double) share, lines[1 + bucket], 1e-12);
        }
        byte[] made = Question.vector(1, 0, 16, false, new double[][] {lines}, 0);
        assertEquals(one.text("answer"), Vectors.hex(made));
    }

    @TestFactory
    Stream<DynamicTest> stagedReleases() {
        return Vectors.each("trials", AnswersTest::trial);
    }

    private static void trial(Vectors.Case one) {
        switch (one.comment().split("[ :]")[0]) {
            case "lead":
                double lead = Gains.lead(rank(one.get("before")), rank(one.get("after")));
                assertEquals(one.number("lead"), lead, 1e-12);
                return;
            case "sum":
            case "more": // than count
                double[] pair = null;
                for (Object ranks : (List<?>) one.get("ranks")) {
                    List<?> both = (List<?>) ranks;
                    pair = Gains.withLead(pair, rank(both.get(0)), rank(both.get(1)));
                }
                assertArrayEquals(new double[] {one.integer("count"), one.number("leads")}, pair, 1e-12);
                assertEquals(one.number("mean"), Gains.meanLead(pair)[0], 1e-12);
                return;
            case "answer":
                double[] mean = one.get("mean") == null ? null : new double[] {one.number("mean")};
                byte[] made = Question.vector(1, 0, 0, true, new double[][] {mean}, 0);
                assertEquals(one.text("answer"), Vectors.hex(made));
                return;
            case "share":
                double drawn = Question.uniform(one.bytes("private_key"), "trial ", one.bytes("rollout"));
                assertEquals(one.number("uniform"), drawn, 1e-12);
                return;
            default:
                Question asked = Question.decode(one.bytes("bytes"));
                assertTrue(asked.isAnswerable());
                assertEquals(11, asked.trial.base);
                assertEquals(0.01, asked.trial.share);
                assertEquals(one.number("at"), asked.moment(one.bytes("private_key")), 1e-6);
        }
    }

    /** Where an item stood; -1 where it was not shown. */
    private static int rank(Object given) {
        return given == null ? -1 : ((Long) given).intValue();
    }

    static Question question(Object... pairs) {
        Map<String, Object> map =
                Export.map(
                        "task", new byte[16], "question", new byte[16], "metric", "ndcg10",
                        "releases", java.util.Arrays.asList(1L), "noise", 1.0, "delta", 1e-5,
                        "least", 20, "most", 100, "budget", 10, "asked_at", 1_800_000_000.0,
                        "ends_at", 1_800_604_800.0, "seal_key", new byte[65], "seal_id", new byte[8]);
        map.putAll(Export.map(pairs));
        Map<String, Object> whole = Fields.start("question");
        whole.putAll(map);
        return Question.decode(MsgPack.encode(whole));
    }

    @TestFactory
    Stream<DynamicTest> questionsAndAnswersAsBytes() {
        return Vectors.cases("codec").stream()
                .filter(one -> one.text("type").matches("questions?|answer"))
                .map(one -> DynamicTest.dynamicTest(one.comment(), () -> bytes(one)));
    }

    private static void bytes(Vectors.Case one) {
        byte[] raw = one.bytes("bytes");
        if (!one.valid()) {
            one.refuses(() -> read(one.text("type"), raw));
            return;
        }
        if (one.text("type").equals("answer")) {
            Fields f = Fields.ofMessage(raw, 8192, "answer");
            byte[] made =
                    Answering.encode(
                            f.id16("task"), f.id16("question"), f.id16("device"), f.bytes("seal_id"),
                            f.bytes("sealed"));
            assertArrayEquals(raw, made);
            return;
        }
        Vectors.Case fields = one.inner("fields");
        if (one.text("type").equals("questions")) {
            assertEquals(((List<?>) fields.get("questions")).size(), Answering.decode(raw).size());
            return;
        }
        Question read = Question.decode(raw);
        assertEquals(fields.text("metric"), read.metric);
        assertEquals(fields.get("releases"), read.releases);
        assertEquals(fields.integer("light"), read.light);
        assertEquals(fields.number("noise"), read.noise);
        assertEquals(fields.number("delta"), read.delta);
        assertEquals(fields.integer("least"), read.least);
        assertEquals(fields.integer("most"), read.most);
        assertEquals(fields.integer("budget"), read.budget);
        assertEquals(fields.number("asked_at"), read.askedAt);
        assertEquals(fields.number("ends_at"), read.endsAt);
        assertEquals(fields.inner("seal_key").text("hex"), Vectors.hex(read.sealKey));
        List<?> variants = (List<?>) fields.fields.get("variants");
        assertEquals(variants == null ? 0 : variants.size(), read.variants.size());
        assertTrue(read.isAnswerable());
    }

    private static void read(String type, byte[] raw) {
        if (type.equals("question")) {
            Question.decode(raw);
        } else {
            Answering.decode(raw);
        }
    }

    /** Bytes with some of them changed are read or refused, and nothing else happens. */
    @Test
    void damagedQuestionsDoNoHarm() {
        Random random = new Random(12);
        for (Vectors.Case one : Vectors.cases("codec")) {
            for (int i = 0; i < 300 && one.text("type").matches("questions?"); i++) {
                byte[] raw = one.bytes("bytes");
                for (int j = 0; j <= i % 3; j++) {
                    raw[random.nextInt(raw.length)] = (byte) random.nextInt();
                }
                try {
                    read(one.text("type"), raw);
                } catch (FedRapException error) {
                    assertTrue(error.getMessage().length() > 5);
                }
            }
        }
    }

    @Test
    void whatMakesNoSenseIsNotAnswered() {
        Map<String, Object> solve = Export.map("name", "solve");
        List<Object> one = java.util.Collections.singletonList(solve);
        List<Object> two = java.util.Arrays.asList(solve, Export.map("name", "solve", "tau", 3.0));
        assertTrue(question("variants", two).isAnswerable());
        assertTrue(!question("variants", one).isAnswerable());
        List<Object> releases = java.util.Arrays.asList(1L, 2L);
        assertTrue(question("releases", releases).isAnswerable());
        assertTrue(!question("releases", releases, "variants", two).isAnswerable());
        assertTrue(!question("releases", java.util.Arrays.asList(2L, 2L)).isAnswerable());
        Map<String, Object> trial = Export.map("rollout", new byte[16], "share", 0.5, "base", 3);
        for (Object[] alone : new Object[][] {{"lists", 16}, {"trial", trial}}) {
            String name = (String) alone[0];
            assertTrue(question(name, alone[1]).isAnswerable());
            assertTrue(!question(name, alone[1], "light", 3).isAnswerable());
            assertTrue(!question(name, alone[1], "variants", two).isAnswerable());
            assertTrue(!question(name, alone[1], "releases", releases).isAnswerable());
        }
        assertTrue(!question("lists", 16, "trial", trial).isAnswerable());
        for (Object bad : new Object[] {7, 1025, "16", null}) {
            assertThrows(FedRapException.class, () -> question("lists", bad));
        }
        for (Object bad : new Object[] {0.0, 1.5, Double.NaN, "all"}) {
            Map<String, Object> other = Export.map("rollout", new byte[16], "share", bad, "base", 3);
            assertThrows(FedRapException.class, () -> question("trial", other));
        }
    }
}
