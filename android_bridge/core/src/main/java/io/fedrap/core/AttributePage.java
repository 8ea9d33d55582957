package io.fedrap.core;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Coordinator to anybody: some rows of each public attribute, column by column (clause 11.2). */
final class AttributePage {
    static final int MOST_BYTES = 1024 * 1024;

    final List<byte[]> columns = new ArrayList<>(); // UTF-8 values, a newline behind each

    private AttributePage(Fields fields) {
        for (Object one : fields.list("columns")) {
            if (!(one instanceof byte[]) || columns.size() == AttributesEntry.MOST_NAMES) {
                throw fields.refused("columns", "is not a list of up to 16 columns");
            }
            columns.add((byte[]) one);
        }
    }

    /** Throws as {@link Fields#ofMessage}. */
    static AttributePage decode(byte[] raw) {
        return new AttributePage(Fields.ofMessage(raw, MOST_BYTES, "attribute-page"));
    }

    /**
     * Returns when this is that page, with the rows that its place says.
     *
     * @throws FedRapException BROKEN_MODEL: it is not.
     */
    static void check(AttributesEntry entry, int number, byte[] digest, byte[] raw) {
        if (!Arrays.equals(Bytes.sha256(raw), digest)) {
            throw FedRapException.broken("a page of attributes with another digest");
        }
        List<byte[]> columns;
        try {
            columns = decode(raw).columns;
            for (byte[] one : columns) {
                StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(one));
            }
        } catch (FedRapException | CharacterCodingException error) {
            throw FedRapException.broken(
                    "a page of attributes that cannot be read: " + error.getMessage());
        }
        boolean fits = columns.size() == entry.names.size();
        for (byte[] one : columns) {
            fits &= newlines(one) == entry.rowsOf(number) && one.length > 0 && one[one.length - 1] == '\n';
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
}
