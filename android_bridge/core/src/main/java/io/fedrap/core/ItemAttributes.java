package io.fedrap.core;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What the operator tells everybody of the items, by row. Kept as it came, in pages, and read when
 * somebody asks.
 */
final class ItemAttributes {
    static final ItemAttributes NONE =
            new ItemAttributes(
                    0, 0, 0, 1, Collections.<String>emptyList(), new byte[0], Collections.<byte[]>emptyList());
    private static final String NAME = "attributes"; // of the records in the store

    final long release;
    final long version;
    final int count;
    final int rows;
    final List<String> names;
    final byte[] digests; // of the pages, in order
    final List<byte[]> pages;
    private final Map<String, String[]> columns = new HashMap<>(); // those that were asked for

    private ItemAttributes(
            long release, long version, int count, int rows, List<String> names, byte[] digests,
            List<byte[]> pages) {
        this.release = release;
        this.version = version;
        this.count = count;
        this.rows = rows;
        this.names = names;
        this.digests = digests;
        this.pages = pages;
    }

    /** These pages, which were checked. */
    static ItemAttributes of(AttributesEntry e, byte[] digests, List<byte[]> pages) {
        return new ItemAttributes(e.release, e.version, e.count, e.rows, e.names, digests, pages);
    }

    /** From a store; none where there are none. Throws anything where they cannot be read. */
    static ItemAttributes load(SealedStore store) {
        List<?> head = StateCodec.list(store.get(NAME));
        if (head.isEmpty()) {
            return NONE;
        }
        List<String> names = new ArrayList<>(StateCodec.texts((byte[]) head.get(4)));
        byte[] digests = (byte[]) head.get(5);
        List<byte[]> pages = new ArrayList<>();
        for (int number = 0; number < digests.length / AttributesEntry.DIGEST; number++) {
            byte[] raw = store.get(NAME + "/" + number);
            byte[] known = AttributesEntry.digest(digests, number);
            if (raw == null || !java.util.Arrays.equals(Bytes.sha256(raw), known)) {
                throw FedRapException.damaged("a page of attributes is missing; the next sync fetches it");
            }
            pages.add(raw);
        }
        return new ItemAttributes(
                (Long) head.get(0), (Long) head.get(1), ((Long) head.get(2)).intValue(),
                ((Long) head.get(3)).intValue(), names, digests, pages);
    }

    /** Set aside where they cannot be read; the next sync fetches them anew. */
    static ItemAttributes loadOrNone(SealedStore store) {
        try {
            return load(store);
        } catch (RuntimeException error) {
            SetAside.value(store, NAME, error);
            return NONE;
        }
    }

    /** What a store must write for these, after {@code before}. */
    Map<String, byte[]> values(ItemAttributes before) {
        Map<String, byte[]> values = new LinkedHashMap<>();
        byte[] texts = MsgPack.encode(new ArrayList<Object>(names));
        values.put(
                NAME,
                StateCodec.list(release, version, (long) count, (long) rows, texts, digests));
        for (int number = 0; number < Math.max(pages.size(), before.pages.size()); number++) {
            byte[] raw = number < pages.size() ? pages.get(number) : null;
            byte[] old = number < before.pages.size() ? before.pages.get(number) : null;
            if (!java.util.Arrays.equals(raw, old)) {
                values.put(NAME + "/" + number, raw);
            }
        }
        return values;
    }

    /** Was that one signed later? A process that lags behind may still serve an older one. */
    boolean givesWayTo(AttributesEntry entry) {
        return release != entry.release ? release < entry.release : version <= entry.version;
    }

    /** Are these the same, page by page and date by date? */
    boolean isSame(ItemAttributes other) {
        return release == other.release && version == other.version && count == other.count
                && rows == other.rows && names.equals(other.names)
                && java.util.Arrays.equals(digests, other.digests);
    }

    /** The attributes of one item; none for a row that is not there. */
    Map<String, String> of(int row) {
        Map<String, String> found = new LinkedHashMap<>();
        if (row >= 0 && row < count) {
            List<byte[]> page = AttributesEntry.columns(pages.get(row / rows));
            for (int i = 0; i < names.size(); i++) {
                String value = split(page.get(i))[row % rows];
                if (!value.isEmpty()) {
                    found.put(names.get(i), value);
                }
            }
        }
        return found;
    }

    /** Forbids the rows that do not pass: an item without an attribute has the value "". */
    void forbid(boolean[] allowed, Map<String, Collection<String>> test) {
        for (Map.Entry<String, Collection<String>> one : test.entrySet()) {
            Set<String> wanted = new HashSet<>(one.getValue());
            String[] values = column(one.getKey());
            for (int row = 0; row < allowed.length; row++) {
                allowed[row] &= wanted.contains(row < values.length ? values[row] : "");
            }
        }
    }

    private synchronized String[] column(String name) {
        String[] known = columns.get(name);
        int place = names.indexOf(name);
        if (known == null && place < 0) {
            return new String[0];
        }
        if (known == null) {
            Map<String, String> same = new HashMap<>(); // a category is one text, however often
            known = new String[count];
            int row = 0;
            for (byte[] page : pages) {
                for (String value : split(AttributesEntry.columns(page).get(place))) {
                    String first = same.putIfAbsent(value, value);
                    known[row++] = first == null ? value : first;
                }
            }
            columns.put(name, known);
        }
        return known;
    }

    private static String[] split(byte[] column) {
        String text = new String(column, StandardCharsets.UTF_8);
        return text.substring(0, text.length() - 1).split("\n", -1);
    }
}
