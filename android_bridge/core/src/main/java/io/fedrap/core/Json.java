package io.fedrap.core;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON texts to values and back: null, Boolean, Long for a whole number that fits, Double, String,
 * List, Map. For problem documents and for test vectors; strict, and no deeper than 64.
 */
final class Json {
    private static final int MAX_DEPTH = 64;
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /**
     * The value that the whole text is.
     *
     * @throws FedRapException MALFORMED_MESSAGE
     */
    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        json.skip();
        if (json.at != text.length()) {
            throw json.malformed();
        }
        return value;
    }

    private Object value(int depth) {
        skip();
        char c = depth > MAX_DEPTH ? 0 : peek();
        switch (c) {
            case '{':
                return object(depth);
            case '[':
                return array(depth);
            case '"':
                return string();
            case 't':
                return word("true", true);
            case 'f':
                return word("false", false);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> fields = new LinkedHashMap<>();
        at++;
        if (ends('}')) {
            return fields;
        }
        do {
            skip();
            String key = string();
            skip();
            expect(':');
            fields.put(key, value(depth + 1));
        } while (more('}'));
        return fields;
    }

    private List<Object> array(int depth) {
        List<Object> items = new ArrayList<>();
        at++;
        if (ends(']')) {
            return items;
        }
        do {
            items.add(value(depth + 1));
        } while (more(']'));
        return items;
    }

    private boolean ends(char end) {
        skip();
        if (peek() != end) {
            return false;
        }
        at++;
        return true;
    }

    private boolean more(char end) {
        if (ends(end)) {
            return false;
        }
        expect(',');
        return true;
    }

    private String string() {
        expect('"');
        StringBuilder out = new StringBuilder();
        for (char c = next(); c != '"'; c = next()) {
            if (c < ' ') {
                throw malformed();
            }
            out.append(c == '\\' ? escaped() : c);
        }
        return out.toString();
    }

    private char escaped() {
        char c = next();
        int place = "\"\\/bfnrt".indexOf(c);
        if (place >= 0) {
            return "\"\\/\b\f\n\r\t".charAt(place);
        }
        if (c != 'u') {
            throw malformed();
        }
        int code = 0;
        for (int i = 0; i < 4; i++) {
            int digit = Character.digit(next(), 16);
            if (digit < 0) {
                throw malformed();
            }
            code = 16 * code + digit;
        }
        return (char) code;
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw malformed();
        }
        at += word.length();
        return value;
    }

    private Object number() {
        int start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(start, at);
        if (!digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
            throw malformed();
        }
        try {
            return Long.parseLong(digits);
        } catch (NumberFormatException notWhole) {
            return Double.parseDouble(digits);
        }
    }

    private void skip() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private void expect(char c) {
        if (next() != c) {
            throw malformed();
        }
    }

    private char next() {
        char c = peek();
        at++;
        return c;
    }

    private char peek() {
        if (at >= text.length()) {
            throw malformed();
        }
        return text.charAt(at);
    }

    private FedRapException malformed() {
        return FedRapException.malformed("not JSON at character " + at);
    }

    /** A value as readable JSON: maps, collections, texts, numbers, bytes as hex; infinity is null. */
    static String text(Object value) {
        StringBuilder out = new StringBuilder();
        put(out, value, "\n");
        return out.append('\n').toString();
    }

    private static void put(StringBuilder out, Object value, String indent) {
        if (value instanceof Map) {
            putMap(out, (Map<?, ?>) value, indent);
        } else if (value instanceof Collection) {
            putAll(out, (Collection<?>) value, indent);
        } else if (value instanceof byte[]) {
            quote(out, Bytes.hex((byte[]) value));
        } else if (value instanceof Double && !isFinite((Double) value)) {
            out.append("null");
        } else if (value == null || value instanceof Boolean || value instanceof Number) {
            out.append(value);
        } else {
            quote(out, value.toString());
        }
    }

    private static boolean isFinite(double number) {
        return !Double.isNaN(number) && !Double.isInfinite(number);
    }

    private static void putMap(StringBuilder out, Map<?, ?> map, String indent) {
        String inner = indent + "  ";
        String mark = "{";
        for (Map.Entry<?, ?> one : map.entrySet()) {
            out.append(mark).append(inner);
            quote(out, (String) one.getKey());
            out.append(": ");
            put(out, one.getValue(), inner);
            mark = ",";
        }
        out.append(map.isEmpty() ? "{}" : indent + "}");
    }

    private static void putAll(StringBuilder out, Collection<?> all, String indent) {
        String inner = indent + "  ";
        String mark = "[";
        for (Object one : all) {
            out.append(mark).append(inner);
            put(out, one, inner);
            mark = ",";
        }
        out.append(all.isEmpty() ? "[]" : indent + "]");
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
