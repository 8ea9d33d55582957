package io.fedrap.core;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Row to id and id to row of a catalogue, in the bytes of the ids and 12 more each; immutable.
 *
 * <p>The index is open addressing over a table of rows; ids are compared as bytes.
 */
final class ItemIds {
    static final int MAX_CHARACTERS = 200;

    private final byte[] blob;
    private final int[] ends; // where the newline behind each id is
    private int[] table; // row + 1, or 0; made when first needed

    /**
     * The ids of a blob, a newline behind each.
     *
     * @throws FedRapException MALFORMED_MESSAGE: it is not a list of ids.
     */
    ItemIds(byte[] blob) {
        this.blob = blob;
        this.ends = endsOf(blob);
        int begin = 0;
        for (int end : ends) {
            if (end == begin || end - begin > 4 * MAX_CHARACTERS) {
                throw FedRapException.malformed("an item id is empty or too long");
            }
            begin = end + 1;
        }
        if (begin != blob.length) {
            throw FedRapException.malformed("the last item id has no end");
        }
    }

    /** 1 to 200 characters, none of them a line break. */
    static boolean isItemId(String text) {
        if (text == null || text.isEmpty() || text.indexOf('\n') >= 0 || text.indexOf('\r') >= 0) {
            return false;
        }
        return text.codePointCount(0, text.length()) <= MAX_CHARACTERS;
    }

    int size() {
        return ends.length;
    }

    /** The id of a row. */
    String name(int row) {
        int begin = begin(row);
        return new String(blob, begin, ends[row] - begin, StandardCharsets.UTF_8);
    }

    /** The row of an id; -1 for one that is not here. */
    synchronized int row(String name) {
        if (table == null) {
            table = indexed();
        }
        byte[] raw = name.getBytes(StandardCharsets.UTF_8);
        int at = slot(hash(raw, 0, raw.length), table.length);
        for (; table[at] != 0; at = at + 1 == table.length ? 0 : at + 1) {
            int row = table[at] - 1;
            if (isAt(row, raw)) {
                return row;
            }
        }
        return -1;
    }

    private boolean isAt(int row, byte[] raw) {
        int begin = begin(row);
        if (ends[row] - begin != raw.length) {
            return false;
        }
        for (int i = 0; i < raw.length; i++) {
            if (blob[begin + i] != raw[i]) {
                return false;
            }
        }
        return true;
    }

    private int begin(int row) {
        return row == 0 ? 0 : ends[row - 1] + 1;
    }

    private int[] indexed() {
        int[] made = new int[2 * ends.length + 1];
        for (int row = 0; row < ends.length; row++) {
            int at = slot(hash(blob, begin(row), ends[row]), made.length);
            while (made[at] != 0) {
                at = at + 1 == made.length ? 0 : at + 1;
            }
            made[at] = row + 1;
        }
        return made;
    }

    private static int slot(int hash, int size) {
        return (int) ((hash & 0xffffffffL) * size >>> 32);
    }

    /** FNV-1a, stirred: neighbouring ids must not share a slot. */
    private static int hash(byte[] raw, int from, int to) {
        int hash = 0x811c9dc5;
        for (int i = from; i < to; i++) {
            hash = (hash ^ raw[i]) * 0x01000193;
        }
        return (hash ^ hash >>> 15) * 0x9e3779b1;
    }

    private static int[] endsOf(byte[] blob) {
        int[] found = new int[16];
        int count = 0;
        for (int i = 0; i < blob.length; i++) {
            if (blob[i] == '\n') {
                found = count == found.length ? Arrays.copyOf(found, 2 * count) : found;
                found[count++] = i;
            }
        }
        return Arrays.copyOf(found, count);
    }
}
