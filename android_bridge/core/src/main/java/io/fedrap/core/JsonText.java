package io.fedrap.core;

import java.util.Collection;
import java.util.Map;

/** Values as readable JSON: maps, collections, texts, numbers, bytes as hex; infinity is null. */
final class JsonText {
    private final StringBuilder out = new StringBuilder();

    private JsonText() {}

    static String of(Object value) {
        JsonText text = new JsonText();
        text.put(value, "\n");
        return text.out.append('\n').toString();
    }

    private void put(Object value, String indent) {
        if (value instanceof Map) {
            putMap((Map<?, ?>) value, indent);
        } else if (value instanceof Collection) {
            putAll((Collection<?>) value, indent);
        } else if (value instanceof byte[]) {
            quote(Bytes.hex((byte[]) value));
        } else if (value instanceof Double && !isFinite((Double) value)) {
            out.append("null");
        } else if (value == null || value instanceof Boolean || value instanceof Number) {
            out.append(value);
        } else {
            quote(value.toString());
        }
    }

    private static boolean isFinite(double number) {
        return !Double.isNaN(number) && !Double.isInfinite(number);
    }

    private void putMap(Map<?, ?> map, String indent) {
        String inner = indent + "  ";
        String mark = "{";
        for (Map.Entry<?, ?> one : map.entrySet()) {
            out.append(mark).append(inner);
            quote((String) one.getKey());
            out.append(": ");
            put(one.getValue(), inner);
            mark = ",";
        }
        out.append(map.isEmpty() ? "{}" : indent + "}");
    }

    private void putAll(Collection<?> all, String indent) {
        String inner = indent + "  ";
        String mark = "[";
        for (Object one : all) {
            out.append(mark).append(inner);
            put(one, inner);
            mark = ",";
        }
        out.append(all.isEmpty() ? "[]" : indent + "]");
    }

    private void quote(String text) {
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
