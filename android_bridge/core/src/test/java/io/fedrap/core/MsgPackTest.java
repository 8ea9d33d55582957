package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class MsgPackTest {
    private static final int LIMIT = 1 << 20;

    /** The boundaries of every form, as Python's msgpack writes them. */
    @Test
    void integersTakeTheirShortestForm() {
        String[][] known = {
            {"0", "00"}, {"127", "7f"}, {"128", "cc80"}, {"255", "ccff"}, {"256", "cd0100"},
            {"65535", "cdffff"}, {"65536", "ce00010000"}, {"4294967295", "ceffffffff"},
            {"4294967296", "cf0000000100000000"}, {"-1", "ff"}, {"-32", "e0"}, {"-33", "d0df"},
            {"-128", "d080"}, {"-129", "d1ff7f"}, {"-32768", "d18000"}, {"-32769", "d2ffff7fff"},
            {"-2147483648", "d280000000"}, {"-2147483649", "d3ffffffff7fffffff"},
            {"9223372036854775807", "cf7fffffffffffffff"},
            {"-9223372036854775808", "d38000000000000000"},
        };
        for (String[] one : known) {
            long number = Long.parseLong(one[0]);
            assertEquals(one[1], Vectors.hex(MsgPack.encode(number)));
            assertEquals(number, MsgPack.decode(Vectors.unhex(one[1]), LIMIT));
        }
    }

    @Test
    void lengthsTakeTheirShortestForm() {
        for (int length : new int[] {0, 31, 32, 255, 256, 65535, 65536}) {
            String text = String.join("", Collections.nCopies(length, "a"));
            assertEquals(text, MsgPack.decode(MsgPack.encode(text), LIMIT));
            int head = length < 32 ? 1 : length < 256 ? 2 : length < 65536 ? 3 : 5;
            assertEquals(length + head, MsgPack.encode(text).length);
            byte[] raw = new byte[length];
            assertArrayEquals(raw, (byte[]) MsgPack.decode(MsgPack.encode(raw), LIMIT));
        }
        for (int count : new int[] {0, 15, 16, 1000}) {
            List<Object> items = new ArrayList<>(Collections.nCopies(count, (Object) true));
            assertEquals(items, MsgPack.decode(MsgPack.encode(items), LIMIT));
        }
    }

    @Test
    void everyFormIsRead() {
        assertEquals(3L, decode("d30000000000000003"));
        assertEquals(1.5, decode("ca3fc00000"));
        assertEquals(new BigInteger("18446744073709551615"), decode("cfffffffffffffffff"));
        assertEquals(Arrays.asList(null, false, -1L), decode("dc0003c0c2ff"));
        assertEquals("é", decode("d902c3a9"));
    }

    @Test
    void ofTwoEqualKeysTheLastCounts() {
        assertEquals(2L, ((Map<?, ?>) decode("82a16101a16102")).get("a"));
    }

    @Test
    void whatIsNoValueIsRefused() {
        for (String hex : new String[] {
            "", "c1", "a2c3", "a1ff", "a3eda080", "0101", "9101ff", "81", "8101", "810101", "81c001",
            "dd7fffffff", "dfffffffff", "c6ffffffff", "dbffffffff", "c9ffffffff01", "cb00", "d9", "d40101",
            "c70205aabb", "d8" + String.join("", Collections.nCopies(17, "00")),
        }) {
            refused(Vectors.unhex(hex));
        }
    }

    @Test
    void depthAndNumberOfValuesAreLimited() {
        byte[] deep = new byte[LIMIT / 2];
        Arrays.fill(deep, (byte) 0x91);
        refused(deep);
        List<Object> many = new ArrayList<>(Collections.nCopies(MsgPack.MAX_VALUES, (Object) 1));
        refused(MsgPack.encode(many));
        assertEquals(many.subList(1, many.size()), decodeAll(many.subList(1, many.size())));
        assertEquals(MsgPack.MAX_VALUES, ((List<?>) MsgPack.decodeOwn(MsgPack.encode(many))).size());
        decode("9191919191919191" + "90"); // eight, and an empty one in them
        refused(Vectors.unhex("9191919191919191" + "9101"));
    }

    @Test
    void sizeIsCheckedFirst() {
        FedRapException error =
                assertThrows(FedRapException.class, () -> MsgPack.decode(new byte[11], 10));
        assertEquals(FedRapException.Kind.TOO_LARGE, error.kind());
    }

    /** Whatever the bytes are, there is a value or a refusal. */
    @Test
    void randomBytesDoNoHarm() {
        Random random = new Random(7);
        for (int i = 0; i < 20_000; i++) {
            byte[] raw = new byte[random.nextInt(40)];
            random.nextBytes(raw);
            try {
                MsgPack.decode(raw, LIMIT);
            } catch (FedRapException error) {
                assertEquals(FedRapException.Kind.MALFORMED_MESSAGE, error.kind());
            }
        }
    }

    private static List<Object> decodeAll(List<Object> items) {
        List<Object> back = new ArrayList<>();
        for (Object one : (List<?>) MsgPack.decode(MsgPack.encode(items), LIMIT)) {
            back.add(((Long) one).intValue());
        }
        return back;
    }

    private static Object decode(String hex) {
        return MsgPack.decode(Vectors.unhex(hex), LIMIT);
    }

    private static void refused(byte[] raw) {
        FedRapException error =
                assertThrows(FedRapException.class, () -> MsgPack.decode(raw, LIMIT));
        assertEquals(FedRapException.Kind.MALFORMED_MESSAGE, error.kind());
    }
}
