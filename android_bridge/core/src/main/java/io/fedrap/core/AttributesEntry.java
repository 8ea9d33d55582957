package io.fedrap.core;

import java.util.ArrayList;
import java.util.List;

/** What the authority signs of the items' public attributes; pages are there by their digests. */
final class AttributesEntry {
    static final int MOST_NAMES = 16;
    private static final int MOST_BYTES = 64 * 1024 * 1024;

    final byte[] task;
    final long release; // the latest one when this was signed
    final long version; // grows with each change of an attribute
    final int count; // rows, from row 0 on
    final int rows; // in each page but the last
    final int sizeBytes; // of all pages
    final List<String> names = new ArrayList<>();
    final byte[] pages; // SHA-256 of the digests of all pages

    private AttributesEntry(Fields fields) {
        task = fields.id16("task");
        release = fields.count("release");
        version = fields.count("version");
        count = (int) fields.integer("count", 0, 1 << 24);
        rows = (int) fields.integer("rows", 1, 1024);
        sizeBytes = (int) fields.integer("size_bytes", 0, MOST_BYTES);
        for (Object one : fields.list("names")) {
            boolean text = one instanceof String && names.size() < MOST_NAMES;
            int length = text ? ((String) one).codePointCount(0, ((String) one).length()) : 0;
            if (length < 1 || length > 40) {
                throw fields.refused("names", "is not a list of up to 16 names");
            }
            names.add((String) one);
        }
        pages = fields.digest("pages");
    }

    /** Throws as {@link Fields#ofMessage}. */
    static AttributesEntry decode(byte[] raw) {
        return new AttributesEntry(Fields.ofMessage(raw, 8192, "attributes-entry"));
    }

    /** How many rows that page has. */
    int rowsOf(int page) {
        return Math.min(rows, count - page * rows);
    }
}
