package io.fedrap.core;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The fields of a message or of a value inside one, each checked for type and range as it is read.
 *
 * <p>Every refusal is MALFORMED_MESSAGE and names the field (PROTOCOL 1.5). A default
 * makes a field one that may be absent; null is a value like any other, and refused.
 */
final class Fields {
    static final int VERSION = 1;
    /** Of any message but a release or a catalogue. */
    static final int MAX_BYTES = 8 * 1024 * 1024;

    private final Map<?, ?> map;
    private final String where;

    private Fields(Map<?, ?> map, String where) {
        this.map = map;
        this.where = where;
    }

    /**
     * A message of one of these types; {@code text("type", …)} says which.
     *
     * @throws FedRapException TOO_LARGE, UNSUPPORTED_VERSION or MALFORMED_MESSAGE
     */
    static Fields ofMessage(byte[] raw, int maxBytes, String... types) {
        Map<?, ?> map = topMap(raw, maxBytes);
        if (!Long.valueOf(VERSION).equals(map.get("v"))) {
            throw unsupported("this side speaks version " + VERSION + " of the protocol");
        }
        Object type = map.get("type");
        if (!(type instanceof String) || !Arrays.asList(types).contains(type)) {
            throw unsupported("expected a message of type " + String.join(" or ", types));
        }
        return checked(map, (String) type);
    }

    /**
     * A value that travels inside a message, or is kept in the store.
     *
     * @throws FedRapException TOO_LARGE or MALFORMED_MESSAGE
     */
    static Fields ofValue(byte[] raw, int maxBytes) {
        return checked(topMap(raw, maxBytes), "$");
    }

    /** The beginning of a message, to be filled with its fields in their order. */
    static Map<String, Object> start(String type) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("v", VERSION);
        map.put("type", type);
        return map;
    }

    private static Map<?, ?> topMap(byte[] raw, int maxBytes) {
        Object value = MsgPack.decode(raw, maxBytes);
        if (!(value instanceof Map)) {
            throw FedRapException.malformed("not a msgpack map");
        }
        return (Map<?, ?>) value;
    }

    private static Fields checked(Map<?, ?> map, String where) {
        for (Object key : map.keySet()) {
            if (!(key instanceof String)) {
                throw FedRapException.malformed("a key of " + where + " is no text");
            }
        }
        return new Fields(map, where);
    }

    private static FedRapException unsupported(String why) {
        return new FedRapException(FedRapException.Kind.UNSUPPORTED_VERSION, why);
    }

    /** Whether there is such a field and it is not null. */
    boolean has(String name) {
        return map.get(name) != null;
    }

    /** Refuses fields of other names: for values in which nothing may be overlooked (5.1). */
    Fields only(String... names) {
        for (Object key : map.keySet()) {
            if (!Arrays.asList(names).contains(key)) {
                throw refused("" + key, "is not known here");
            }
        }
        return this;
    }

    long integer(String name, long min, long max) {
        Object value = map.get(name);
        if (!(value instanceof Long)) {
            throw refused(name, "is not an integer of this range");
        }
        long n = (Long) value;
        if (n < min || n > max) {
            throw refused(name, "is not within " + min + " to " + max);
        }
        return n;
    }

    long integer(String name, long min, long max, long absent) {
        return map.containsKey(name) ? integer(name, min, max) : absent;
    }

    boolean flag(String name, boolean absent) {
        Object value = map.containsKey(name) ? map.get(name) : (Object) absent;
        if (!(value instanceof Boolean)) {
            throw refused(name, "is neither true nor false");
        }
        return (Boolean) value;
    }

    /** A list of so many numbers, each within a range. */
    double[] numbers(String name, int least, int most, double min, double max, double[] absent) {
        if (!map.containsKey(name)) {
            return absent;
        }
        List<?> all = list(name);
        if (all.size() < least || all.size() > most) {
            throw refused(name, "does not have " + least + " to " + most + " numbers");
        }
        double[] out = new double[all.size()];
        for (int i = 0; i < out.length; i++) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put(name, all.get(i));
            out[i] = new Fields(one, where).number(name, min, max);
        }
        return out;
    }

    /** A float, for which an integer passes; NaN is in no range. */
    double number(String name, double min, double max) {
        Object value = map.get(name);
        if (!(value instanceof Double || value instanceof Long || value instanceof BigInteger)) {
            throw refused(name, "is not a number");
        }
        double x = ((Number) value).doubleValue();
        if (!(x >= min && x <= max)) {
            throw refused(name, "is not within " + min + " to " + max);
        }
        return x;
    }

    double number(String name, double min, double max, double absent) {
        return map.containsKey(name) ? number(name, min, max) : absent;
    }

    byte[] bytes(String name, int min, int max) {
        Object value = map.get(name);
        if (!(value instanceof byte[])) {
            throw refused(name, "is not bytes");
        }
        byte[] raw = (byte[]) value;
        if (raw.length < min || raw.length > max) {
            throw refused(name, "does not have " + min + " to " + max + " bytes");
        }
        return raw;
    }

    byte[] bytes(String name, int min, int max, byte[] absent) {
        return map.containsKey(name) ? bytes(name, min, max) : absent;
    }

    /** Bytes of any length, as far as the message may be long. */
    byte[] bytes(String name) {
        return bytes(name, 0, Integer.MAX_VALUE);
    }

    byte[] id16(String name) {
        return bytes(name, 16, 16);
    }

    byte[] digest(String name) {
        return bytes(name, 32, 32);
    }

    byte[] point(String name) {
        return bytes(name, 65, 65);
    }

    /** A step or a version. */
    long count(String name) {
        return integer(name, 0, 1L << 31);
    }

    /** A text; its length is counted in characters of Unicode. */
    String text(String name, int min, int max) {
        Object value = map.get(name);
        if (!(value instanceof String)) {
            throw refused(name, "is not a text");
        }
        String text = (String) value;
        int length = text.codePointCount(0, text.length());
        if (length < min || length > max) {
            throw refused(name, "does not have " + min + " to " + max + " characters");
        }
        return text;
    }

    String text(String name, int min, int max, String absent) {
        return map.containsKey(name) ? text(name, min, max) : absent;
    }

    Fields inner(String name) {
        Object value = map.get(name);
        if (!(value instanceof Map)) {
            throw refused(name, "is not a map");
        }
        return checked((Map<?, ?>) value, where + "." + name);
    }

    /** A list of up to so many byte strings, none longer than that. */
    List<byte[]> binaries(String name, int most, int longest) {
        List<byte[]> found = new ArrayList<>();
        for (Object one : list(name)) {
            boolean good = one instanceof byte[] && ((byte[]) one).length <= longest;
            if (!good || found.size() == most) {
                throw refused(name, "is not a list of up to " + most + " byte strings");
            }
            found.add((byte[]) one);
        }
        return found;
    }

    /** A list of up to so many maps. */
    List<Fields> inners(String name, int most) {
        List<Fields> found = new ArrayList<>();
        for (Object one : list(name)) {
            if (!(one instanceof Map) || found.size() == most) {
                throw refused(name, "is not a list of up to " + most + " maps");
            }
            found.add(checked((Map<?, ?>) one, where + "." + name));
        }
        return found;
    }

    List<?> list(String name) {
        Object value = map.get(name);
        if (!(value instanceof List)) {
            throw refused(name, "is not a list");
        }
        return (List<?>) value;
    }

    /** The fields as they came, for what is only passed on. */
    Map<?, ?> asMap() {
        return map;
    }

    FedRapException refused(String name, String why) {
        return FedRapException.malformed(where + "." + name + " " + why);
    }
}
