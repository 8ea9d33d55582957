package io.fedrap.core;

/** Coordinator to device: the items from row {@code start} on. A row is never given twice. */
final class Catalogue {
    final long version;
    final long start;
    final long count;
    final byte[] items; // UTF-8 ids, each followed by a newline
    final byte[] retired; // u32 little-endian, ascending: all rows not to be shown

    private Catalogue(Fields fields) {
        version = fields.count("version");
        start = fields.count("start");
        count = fields.count("count");
        items = fields.bytes("items");
        retired = fields.bytes("retired");
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Catalogue decode(byte[] raw, int maxBytes) {
        return from(Fields.ofMessage(raw, maxBytes, "catalogue"));
    }

    static Catalogue from(Fields fields) {
        return new Catalogue(fields);
    }
}
