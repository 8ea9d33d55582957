package io.fedrap.core;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** What the authority signs of the items' public attributes; pages are there by their digests. */
final class AttributesEntry {
    static final int PAGE_BYTES = 1024 * 1024;
    private static final int MOST_NAMES = 16;
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

    /** The columns of a page: UTF-8 values, a newline behind each (11.2); throws as {@link Fields#ofMessage}. */
    static List<byte[]> columns(byte[] page) {
        return Fields.ofMessage(page, PAGE_BYTES, "attribute-page")
                .binaries("columns", MOST_NAMES, PAGE_BYTES);
    }

    /**
     * Returns when this is that page, with the rows that its place says.
     *
     * @throws FedRapException BROKEN_MODEL: it is not.
     */
    void check(int number, byte[] digest, byte[] raw) {
        if (!Arrays.equals(Bytes.sha256(raw), digest)) {
            throw FedRapException.broken("a page of attributes with another digest");
        }
        List<byte[]> columns;
        try {
            columns = columns(raw);
            for (byte[] one : columns) {
                StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(one));
            }
        } catch (FedRapException | CharacterCodingException error) {
            throw FedRapException.broken(
                    "a page of attributes that cannot be read: " + error.getMessage());
        }
        boolean fits = columns.size() == names.size();
        for (byte[] one : columns) {
            fits &= newlines(one) == rowsOf(number) && one.length > 0 && one[one.length - 1] == '\n';
        }
        if (!fits) {
            throw FedRapException.broken(
                    "a page of attributes with other rows or columns than were signed");
        }
    }

    private static int newlines(byte[] column) {
        int count = 0;
        for (byte one : column) {
            count += one == '\n' ? 1 : 0;
        }
        return count;
    }

    /** How many rows that page has. */
    int rowsOf(int page) {
        return Math.min(rows, count - page * rows);
    }
}
