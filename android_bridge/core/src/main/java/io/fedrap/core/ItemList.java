package io.fedrap.core;

import java.util.Arrays;

/**
 * The catalogue as this device knows it, or coordinator to device the items from row {@code start} on: the
 * ids of rows, and rows not to be shown. A row is never given twice.
 */
final class ItemList {
    static final ItemList EMPTY = new ItemList(0, 0, new byte[0], new byte[0]);

    final long version;
    final long start;
    final long count; // of the ids
    final byte[] items; // as in ItemIds
    final byte[] retired; // u32 little-endian

    ItemList(long version, long count, byte[] items, byte[] retired) {
        this.version = version;
        this.start = 0;
        this.count = count;
        this.items = items;
        this.retired = retired;
    }

    private ItemList(Fields fields) {
        version = fields.count("version");
        start = fields.count("start");
        count = fields.count("count");
        items = fields.bytes("items");
        retired = fields.bytes("retired");
    }

    /** Throws as {@link Fields#ofMessage}. */
    static ItemList decode(byte[] raw, int maxBytes) {
        return new ItemList(Fields.ofMessage(raw, maxBytes, "catalogue"));
    }

    /**
     * This list with the coordinator's newer rows; rows that are known stay as they are (7.3).
     *
     * @throws FedRapException BROKEN_MODEL: rows are missing, or more or fewer than stated.
     */
    ItemList extended(ItemList news) {
        if (news.start > count) {
            throw FedRapException.broken("a catalogue that leaves out rows");
        }
        int from = 0; // behind the rows that are known
        long known = count - news.start;
        long rows = 0;
        for (int i = 0; i < news.items.length; i++) {
            if (news.items[i] == '\n') {
                rows++;
                from = rows == known ? i + 1 : from;
            }
        }
        if (rows != news.count || news.retired.length % 4 != 0) {
            throw FedRapException.broken("a catalogue that does not have the rows that it states");
        }
        byte[] fresh =
                rows <= known
                        ? new byte[0]
                        : Arrays.copyOfRange(news.items, from, news.items.length);
        long total = count + Math.max(0, rows - known);
        return new ItemList(news.version, total, Bytes.join(items, fresh), news.retired);
    }
}
