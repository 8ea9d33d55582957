package io.fedrap.core;

import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Values to msgpack and back.
 *
 * <p>A value is null, a Boolean, a Long (an Integer when encoding), a Double, a String, a byte[], a
 * List or a Map. Encoding takes the shortest form of each, as Python's msgpack does, so equal
 * values give equal bytes. Decoding takes every form and a BigInteger where a Long is too small, but no
 * extension; it takes no memory that the bytes do not pay for (PROTOCOL 1.7).
 */
final class MsgPack {
    /** Of maps and lists in each other; a release has 2. */
    static final int MAX_DEPTH = 8;
    /** Values in one message, keys included: the largest of ours has some two hundred. */
    static final int MAX_VALUES = 1024;

    private final ByteBuffer in; // big-endian
    private int left; // values that may come yet

    /** One pass over the bytes; nothing is believed that the rest of them could not hold. */
    private MsgPack(byte[] raw, int maxValues) {
        in = ByteBuffer.wrap(raw);
        left = maxValues;
    }

    /** The bytes of a value. */
    static byte[] encode(Object value) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        put(out, value);
        return out.toByteArray();
    }

    /**
     * The value that the whole of {@code raw} is.
     *
     * @throws FedRapException TOO_LARGE before anything is parsed, or MALFORMED_MESSAGE
     */
    static Object decode(byte[] raw, int maxBytes) {
        return decode(raw, maxBytes, MAX_VALUES);
    }

    /** A value that this device wrote itself: a ledger or a history may have many. */
    static Object decodeOwn(byte[] raw) {
        return decode(raw, raw.length, Integer.MAX_VALUE);
    }

    private static Object decode(byte[] raw, int maxBytes, int maxValues) {
        if (raw.length > maxBytes) {
            throw new FedRapException(
                    FedRapException.Kind.TOO_LARGE,
                    raw.length + " bytes where " + maxBytes + " are allowed");
        }
        MsgPack reader = new MsgPack(raw, maxValues);
        Object value = reader.value(0);
        if (reader.in.hasRemaining()) {
            throw malformed("bytes behind the end of the value");
        }
        return value;
    }

    private static void put(ByteArrayOutputStream out, Object value) {
        if (value == null) {
            out.write(0xc0);
        } else if (value instanceof Boolean) {
            out.write((Boolean) value ? 0xc3 : 0xc2);
        } else if (value instanceof Long || value instanceof Integer) {
            putInteger(out, ((Number) value).longValue());
        } else if (value instanceof Double) {
            out.write(0xcb);
            big(out, Double.doubleToLongBits((Double) value), 8);
        } else if (value instanceof String) {
            byte[] raw = ((String) value).getBytes(StandardCharsets.UTF_8);
            if (raw.length < 32) {
                out.write(0xa0 | raw.length);
            } else {
                putLength(out, raw.length, 0xd9, 0xda, 0xdb);
            }
            out.write(raw, 0, raw.length);
        } else if (value instanceof byte[]) {
            byte[] raw = (byte[]) value;
            putLength(out, raw.length, 0xc4, 0xc5, 0xc6);
            out.write(raw, 0, raw.length);
        } else if (value instanceof List) {
            List<?> items = (List<?>) value;
            putCount(out, items.size(), 0x90, 0xdc);
            for (Object item : items) {
                put(out, item);
            }
        } else if (value instanceof Map) {
            Map<?, ?> map = (Map<?, ?>) value;
            putCount(out, map.size(), 0x80, 0xde);
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                put(out, entry.getKey());
                put(out, entry.getValue());
            }
        } else {
            throw new IllegalArgumentException("msgpack has no " + value.getClass());
        }
    }

    private static void putInteger(ByteArrayOutputStream out, long n) {
        if (n >= -32 && n < 128) {
            out.write((int) n);
        } else if (n >= 0) {
            int width = n < 1 << 8 ? 0 : n < 1 << 16 ? 1 : n < 1L << 32 ? 2 : 3;
            out.write(0xcc + width);
            big(out, n, 1 << width);
        } else {
            int width = n >= -(1 << 7) ? 0 : n >= -(1 << 15) ? 1 : n >= -(1L << 31) ? 2 : 3;
            out.write(0xd0 + width);
            big(out, n, 1 << width);
        }
    }

    private static void putLength(ByteArrayOutputStream out, int n, int one, int two, int four) {
        int width = n < 1 << 8 ? 1 : n < 1 << 16 ? 2 : 4;
        out.write(width == 1 ? one : width == 2 ? two : four);
        big(out, n, width);
    }

    private static void putCount(ByteArrayOutputStream out, int n, int few, int more) {
        if (n < 16) {
            out.write(few | n);
        } else {
            out.write(n < 1 << 16 ? more : more + 1);
            big(out, n, n < 1 << 16 ? 2 : 4);
        }
    }

    private static void big(ByteArrayOutputStream out, long n, int width) {
        for (int shift = 8 * (width - 1); shift >= 0; shift -= 8) {
            out.write((int) (n >>> shift));
        }
    }

    private static FedRapException malformed(String why) {
        return FedRapException.malformed("not a msgpack value: " + why);
    }

    private Object value(int depth) {
        if (--left < 0) {
            throw malformed("too many values");
        }
        int head = (int) number(1);
        if (head < 0x80) {
            return (long) head;
        }
        if (head >= 0xe0) {
            return (long) (byte) head;
        }
        if (head < 0x90) {
            return map(head & 15, depth);
        }
        if (head < 0xa0) {
            return list(head & 15, depth);
        }
        if (head < 0xc0) {
            return text(head & 31);
        }
        return marked(head, depth);
    }

    private Object marked(int head, int depth) {
        switch (head) {
            case 0xc0:
                return null;
            case 0xc2:
                return false;
            case 0xc3:
                return true;
            case 0xc4:
            case 0xc5:
            case 0xc6:
                return bytes(number(1 << head - 0xc4));
            case 0xca:
                return (double) Float.intBitsToFloat((int) number(4));
            case 0xcb:
                return Double.longBitsToDouble(number(8));
            case 0xcc:
            case 0xcd:
            case 0xce:
                return number(1 << head - 0xcc);
            case 0xcf:
                return unsigned(number(8));
            case 0xd0:
                return (long) (byte) number(1);
            case 0xd1:
                return (long) (short) number(2);
            case 0xd2:
                return (long) (int) number(4);
            case 0xd3:
                return number(8);
            case 0xd9:
            case 0xda:
            case 0xdb:
                return text(number(1 << head - 0xd9));
            case 0xdc:
            case 0xdd:
                return list(number(2 << head - 0xdc), depth);
            case 0xde:
            case 0xdf:
                return map(number(2 << head - 0xde), depth);
            default:
                throw malformed("an extension, or a byte that msgpack never uses");
        }
    }

    /** An unsigned number of 1, 2 or 4 bytes, or the bits of 8. */
    private long number(int width) {
        need(width);
        long n = 0;
        for (int i = 0; i < width; i++) {
            n = n << 8 | in.get() & 255;
        }
        return n;
    }

    private static Object unsigned(long bits) {
        if (bits >= 0) {
            return bits;
        }
        return BigInteger.valueOf(bits).add(BigInteger.ONE.shiftLeft(64));
    }

    private byte[] bytes(long length) {
        need(length);
        byte[] out = new byte[(int) length];
        in.get(out);
        return out;
    }

    private String text(long length) {
        need(length);
        ByteBuffer part = in.duplicate();
        part.limit(in.position() + (int) length);
        in.position(part.limit());
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(part).toString();
        } catch (CharacterCodingException error) {
            throw malformed("a text that is not UTF-8");
        }
    }

    private List<Object> list(long count, int depth) {
        enter(count, count, depth);
        List<Object> items = new ArrayList<>();
        for (long i = 0; i < count; i++) {
            items.add(value(depth + 1));
        }
        return items;
    }

    /** Keys are texts or bytes; of two equal ones the last counts. */
    private Map<Object, Object> map(long count, int depth) {
        enter(count, 2 * count, depth);
        Map<Object, Object> fields = new LinkedHashMap<>();
        for (long i = 0; i < count; i++) {
            Object key = value(depth + 1);
            if (!(key instanceof String || key instanceof byte[])) {
                throw malformed("a key that is not a text");
            }
            fields.put(key, value(depth + 1));
        }
        return fields;
    }

    /** What is inside is there, and neither too deep nor too much, before a place is made for it. */
    private void enter(long count, long inside, int depth) {
        need(inside);
        if (inside > left || count > 0 && depth >= MAX_DEPTH) {
            throw malformed("too deep, or too many values");
        }
    }

    private void need(long bytes) {
        if (bytes > in.remaining()) {
            throw malformed("cut short");
        }
    }
}
