package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** codec.json: every message and plan, byte for byte, and what is refused. */
class CodecTest {
    /** Bytes of a message of that type, read and written again. */
    private static final Map<String, Function<byte[], byte[]>> THERE_AND_BACK = new HashMap<>();

    static {
        THERE_AND_BACK.put("enrol", raw -> Enrol.decode(raw).encode());
        THERE_AND_BACK.put("enrolled", raw -> Enrolled.decode(raw).encode());
        THERE_AND_BACK.put("certificate", raw -> Certificate.decode(raw).encode());
        THERE_AND_BACK.put("renew", raw -> Renew.decode(raw).encode());
        THERE_AND_BACK.put("renewed", raw -> Renewed.decode(raw).encode());
        THERE_AND_BACK.put("offer-request", raw -> OfferRequest.decode(raw).encode());
        THERE_AND_BACK.put("offer", raw -> Offer.decode(raw).encode());
        THERE_AND_BACK.put("update", raw -> Update.decode(raw).encode());
        THERE_AND_BACK.put("share", raw -> Share.decode(raw).encode());
        THERE_AND_BACK.put("accepted", raw -> Accepted.decode(raw).encode());
        THERE_AND_BACK.put("release", raw -> Release.decode(raw, 1 << 20).encode());
        THERE_AND_BACK.put("delta", raw -> Delta.decode(raw, 1 << 20).encode());
        THERE_AND_BACK.put("catalogue", raw -> Catalogue.decode(raw, 1 << 20).encode());
        THERE_AND_BACK.put("forget", raw -> Forget.decode(raw).encode());
        THERE_AND_BACK.put("forgotten", raw -> Forgotten.decode(raw).encode());
        THERE_AND_BACK.put("plan", raw -> Plan.decode(raw).encode());
        THERE_AND_BACK.put(
                "scoring",
                raw -> MsgPack.encode(Scoring.ofSolve(Fields.ofValue(raw, 4096)).toMap()));
    }

    @TestFactory
    Stream<DynamicTest> vectors() {
        return Vectors.each("codec", CodecTest::check);
    }

    private static void check(Vectors.Case one) {
        byte[] raw = one.bytes("bytes");
        Function<byte[], byte[]> both = THERE_AND_BACK.get(one.text("type"));
        if (!one.valid()) {
            // The size is checked by the same call for all messages, so it is checked there.
            one.refuses(
                    () -> {
                        MsgPack.decode(raw, (int) one.integer("max_bytes"));
                        both.apply(raw);
                    });
            return;
        }
        // What was read is written as Python writes these fields: so each was read right.
        byte[] expected = MsgPack.encode(asPython(one));
        assertEquals(Vectors.hex(expected), Vectors.hex(both.apply(raw)));
        if (one.text("direction").equals("both")) {
            assertEquals(Vectors.hex(raw), Vectors.hex(expected));
        }
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
            for (int i = 0; one.valid() && i < 300; i++) {
                byte[] raw = one.bytes("bytes");
                for (int j = 0; j <= i % 3; j++) {
                    raw[random.nextInt(raw.length)] = (byte) random.nextInt();
                }
                try {
                    THERE_AND_BACK.get(one.text("type")).apply(raw);
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
        assertEquals(THERE_AND_BACK.keySet(), seen.keySet());
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
        assertEquals(Problem.families(), found);
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
