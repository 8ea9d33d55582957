package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** codec.json: every message and plan, byte for byte, and what is refused. */
class CodecTest {
    /** What a device sends: the fields of a case to bytes. */
    private static final Map<String, Function<Fields, byte[]>> SENT = new HashMap<>();

    static {
        SENT.put("offer-request", f -> Requests.offer(f.count("release"), f.number("wait", 0, 600)));
        SENT.put(
                "enrol",
                f ->
                        Requests.enrol(
                                f.text("token", 1, 2000),
                                f.point("public_key"),
                                f.text("attestation_kind", 1, 40),
                                f.bytes("attestation")));
        SENT.put(
                "renew",
                f ->
                        Requests.renew(
                                f.integer("nonce", 0, Long.MAX_VALUE),
                                f.text("attestation_kind", 1, 40),
                                f.bytes("attestation")));
        SENT.put(
                "update",
                f ->
                        Requests.update(
                                Offer.decode(offerFor(f)),
                                f.digest("plan"),
                                f.id16("device"),
                                f.bytes("sealed")));
        SENT.put(
                "share",
                f ->
                        Requests.share(
                                Bytes.integers(f.bytes("rows")),
                                ShareReader.rows(f, "values", "scales", 2),
                                ShareReader.rows(f, "triangle", "triangle_scales", 2),
                                (int) f.integer("fits", -1, 1),
                                new RowPart[0],
                                new QuantizedRows[0]));
        SENT.put("forget", f -> Requests.forget());
    }

    /** The offer of the vectors, with the task, round, step, model and key of an update. */
    private static byte[] offerFor(Fields update) {
        for (Vectors.Case one : Vectors.cases("codec")) {
            if (one.valid() && one.text("type").equals("offer")) {
                Map<String, Object> fields = asPython(one);
                for (String name : new String[] {"task", "round", "step", "model", "seal_id"}) {
                    fields.put(name, update.asMap().get(name));
                }
                return MsgPack.encode(fields);
            }
        }
        throw new AssertionError("no offer in the vectors");
    }

    @TestFactory
    Stream<DynamicTest> vectors() {
        return Vectors.each("codec", CodecTest::check);
    }

    private static void check(Vectors.Case one) throws Exception {
        byte[] raw = one.bytes("bytes");
        String type = one.text("type");
        if (!one.valid()) {
            // The size is checked by the same call for all messages, so it is checked there.
            one.refuses(
                    () -> {
                        MsgPack.decode(raw, (int) one.integer("max_bytes"));
                        Received.read(type, raw);
                    });
            return;
        }
        Map<String, Object> fields = asPython(one);
        if (one.text("direction").equals("both")) {
            assertEquals(Vectors.hex(raw), Vectors.hex(MsgPack.encode(fields)));
        }
        if (Received.TYPES.contains(type)) {
            same(fields, Received.read(type, raw));
        }
        if (SENT.containsKey(type) && one.text("direction").equals("both")) {
            byte[] made = SENT.get(type).apply(Fields.ofValue(MsgPack.encode(fields), 1 << 20));
            assertEquals(Vectors.hex(raw), Vectors.hex(made));
        }
    }

    /** Every field was read, and no other. */
    private static void same(Map<String, Object> expected, Object message) throws Exception {
        if (message instanceof Scoring || message instanceof Privacy) {
            Object map = message.getClass().getDeclaredMethod("toMap").invoke(message);
            assertArrayEquals(MsgPack.encode(expected), MsgPack.encode(map));
            return;
        }
        if (message instanceof byte[]) {
            assertArrayEquals(MsgPack.encode(expected), (byte[]) message);
            return;
        }
        for (Map.Entry<String, Object> one : expected.entrySet()) {
            if (!one.getKey().equals("v") && !one.getKey().equals("type")) {
                sameField(one.getKey(), one.getValue(), message);
            }
        }
    }

    private static void sameField(String name, Object expected, Object message) throws Exception {
        if (message instanceof SolveMethod && name.equals("name")) {
            return;
        }
        Field field = message.getClass().getDeclaredField(nameOf(name));
        field.setAccessible(true);
        Object read = field.get(message);
        if (expected instanceof Map && read != null) {
            same(mapOf(expected), read);
        } else if (expected instanceof Map) {
            assertFalse(((Plan) message).isSolve()); // of another method: nothing is read of it
        } else {
            assertArrayEquals(MsgPack.encode(expected), MsgPack.encode(read), name);
        }
    }

    private static Map<String, Object> mapOf(Object map) {
        Map<String, Object> out = new LinkedHashMap<>();
        ((Map<?, ?>) map).forEach((k, v) -> out.put((String) k, v));
        return out;
    }

    private static String nameOf(String wire) {
        String[] words = wire.split("_");
        StringBuilder name = new StringBuilder(words[0]);
        for (int i = 1; i < words.length; i++) {
            name.append(Character.toUpperCase(words[i].charAt(0))).append(words[i].substring(1));
        }
        return name.toString();
    }

    private static Map<String, Object> asPython(Vectors.Case one) {
        String type = one.text("type");
        boolean value = type.equals("plan") || type.equals("scoring");
        Map<String, Object> map = value ? new LinkedHashMap<>() : Fields.start(type);
        one.inner("fields").fields.forEach((k, v) -> map.put((String) k, unhexed(v)));
        return map;
    }

    private static Object unhexed(Object value) {
        if (value instanceof List) {
            List<Object> items = new ArrayList<>();
            ((List<?>) value).forEach(x -> items.add(unhexed(x)));
            return items;
        }
        if (!(value instanceof Map)) {
            return value;
        }
        Map<?, ?> map = (Map<?, ?>) value;
        if (map.containsKey("hex")) {
            return Vectors.unhex((String) map.get("hex"));
        }
        Map<String, Object> inner = new LinkedHashMap<>();
        map.forEach((k, v) -> inner.put((String) k, unhexed(v)));
        return inner;
    }

    /** Bytes with some of them changed are read or refused, and nothing else happens. */
    @Test
    void damagedMessagesDoNoHarm() {
        Random random = new Random(11);
        for (Vectors.Case one : Vectors.cases("codec")) {
            boolean read = one.valid() && Received.TYPES.contains(one.text("type"));
            for (int i = 0; read && i < 300; i++) {
                byte[] raw = one.bytes("bytes");
                for (int j = 0; j <= i % 3; j++) {
                    raw[random.nextInt(raw.length)] = (byte) random.nextInt();
                }
                try {
                    Received.read(one.text("type"), raw);
                } catch (FedRapException error) {
                    assertTrue(error.getMessage().length() > 5);
                }
            }
        }
    }

    @Test
    void everyMessageOfTheProtocolHasACase() {
        Map<String, Boolean> seen = new HashMap<>();
        Vectors.cases("codec").forEach(one -> seen.put(one.text("type"), true));
        Set<String> known = new HashSet<>(Received.TYPES);
        known.addAll(SENT.keySet());
        // Questions about quality are read by the module measure.
        known.addAll(java.util.Arrays.asList("question", "questions", "answer"));
        assertEquals(known, seen.keySet());
    }

    @Test
    void aPlanOfAnotherMethodSaysSo() {
        for (Vectors.Case one : Vectors.cases("codec")) {
            if (one.valid() && one.text("type").equals("plan")) {
                Plan plan = Plan.decode(one.bytes("bytes"));
                String name = one.inner("fields").inner("method").text("name");
                assertEquals(name.equals("solve"), plan.isSolve());
                if (!plan.isSolve()) {
                    FedRapException error = assertThrows(FedRapException.class, plan::method);
                    assertEquals(FedRapException.Kind.UNSUPPORTED_METHOD, error.kind());
                    assertTrue(error.getMessage().contains("paper"));
                }
            }
        }
    }

    @Test
    void plansOutOfTheirRangesAreRefused() {
        String[] bad = {
            "{\"privacy\": {\"coefficients\": []}}",
            "{\"privacy\": {\"coefficients\": [0.5]}}",
            "{\"privacy\": {\"coefficients\": [1, 0.5, 0.75], \"separation\": 3}}",
            "{\"privacy\": {\"coefficients\": [1, 0.5, 0.25], \"separation\": 2}}",
            "{\"privacy\": {\"coefficients\": [true]}}",
            "{\"privacy\": {\"clip\": 0}}",
            "{\"privacy\": {\"delta\": 1.0}}",
            "{\"privacy\": {\"row_clip\": true}}",
            "{\"privacy\": {\"adapt\": {\"rate\": 0.0}}}",
            "{\"privacy\": null}",
            "{\"method\": {\"dim\": 8}}",
            "{\"method\": {\"name\": \"solve\", \"dim\": 513}}",
            "{\"method\": {\"name\": \"solve\", \"colour\": 1}}",
            "{\"min_updates\": 0}",
            "{\"colour\": 0}",
        };
        for (String text : bad) {
            byte[] raw = MsgPack.encode(Json.parse(text));
            FedRapException error =
                    assertThrows(FedRapException.class, () -> Plan.decode(raw), text);
            assertEquals(FedRapException.Kind.MALFORMED_MESSAGE, error.kind());
        }
    }

    /** The table of PROTOCOL 8 and ours agree. */
    @Test
    void everyProblemOfTheProtocolIsKnown() throws Exception {
        String text = Files.readString(Vectors.root().resolve("spec/PROTOCOL.md"));
        Matcher rows =
                Pattern.compile("(?m)^\\| ([a-z-]+) \\| (\\d{3}) \\| (\\w+) \\|").matcher(text);
        Map<String, Problem.Family> found = new HashMap<>();
        while (rows.find()) {
            String body = "{\"type\": \"urn:fedrap:problem:" + rows.group(1) + "\"}";
            Problem read =
                    Problem.read(Integer.parseInt(rows.group(2)), body.getBytes("UTF-8"), "7");
            assertEquals(rows.group(3).toUpperCase(), read.family.name(), rows.group(1));
            assertEquals(7.0, read.retryAfter);
            found.put(rows.group(1), read.family);
        }
        assertEquals(Problem.FAMILIES, found);
    }

    @Test
    void whateverAnAnswerIsItIsAProblem() throws Exception {
        for (String body : new String[] {"", "[]", "{", "null", "{\"type\": 3}", "<html>"}) {
            Problem read = Problem.read(502, body.getBytes("UTF-8"), null);
            assertEquals("", read.code);
            assertEquals(Problem.Family.RETRY, read.family);
            assertTrue(Double.isNaN(read.retryAfter));
        }
        assertEquals(Problem.Family.RETRY, Problem.read(418, new byte[0], "-1").family);
        String odd = "{\"type\": \"urn:fedrap:problem:no-round\", \"retry_after\": -5}";
        Problem read = Problem.read(503, odd.getBytes("UTF-8"), "soon");
        assertEquals("no-round", read.code);
        assertFalse(read.retryAfter >= 0);
    }
}
