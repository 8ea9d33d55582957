package io.fedrap.core;

import java.util.Map;

/** Coordinator to device: the items from row {@code start} on. A row is never given twice. */
final class Catalogue {
    final long version;
    final long start;
    final long count;
    final byte[] items; // UTF-8 ids, each followed by a newline
    final byte[] retired; // u32 little-endian, ascending: all rows not to be shown

    Catalogue(long version, long start, long count, byte[] items, byte[] retired) {
        this.version = version;
        this.start = start;
        this.count = count;
        this.items = items;
        this.retired = retired;
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Catalogue decode(byte[] raw, int maxBytes) {
        return from(Fields.ofMessage(raw, maxBytes, "catalogue"));
    }

    static Catalogue from(Fields fields) {
        return new Catalogue(
                fields.count("version"),
                fields.count("start"),
                fields.count("count"),
                fields.bytes("items"),
                fields.bytes("retired"));
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("catalogue");
        map.put("version", version);
        map.put("start", start);
        map.put("count", count);
        map.put("items", items);
        map.put("retired", retired);
        return MsgPack.encode(map);
    }
}
