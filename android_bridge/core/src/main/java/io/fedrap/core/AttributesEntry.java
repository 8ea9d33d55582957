package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;

/** What the authority signs of the items' public attributes; pages are there by their digests. */
final class AttributesEntry {
    static final int DIGEST = 32;
    private static final int MOST_DIGESTS = 4 * 1024 * 1024; // bytes
    private static final byte[] ENTRY = Bytes.ascii("fedrap/1 attributes-entry\n");
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

    /**
     * Coordinator to anybody: an entry as signed, and the digests of its pages, 32 bytes each, in order
     * (11.1). Throws as {@link Fields#ofMessage}.
     */
    static byte[][] message(byte[] raw) {
        Fields fields = Fields.ofMessage(raw, Fields.MAX_BYTES, "attributes");
        return new byte[][] {
            fields.bytes("entry", 0, Authority.ENTRY_BYTES), fields.bytes("pages", 0, MOST_DIGESTS)
        };
    }

    /**
     * The entry, once it is found to speak of these pages and to be signed; null is an authority that is
     * not known yet.
     *
     * @throws FedRapException SIGNATURE_INVALID: not signed, or other pages than the authority signed.
     */
    static AttributesEntry checked(byte[] entry, byte[] pages, byte[] authority) {
        int from = Math.min(entry.length, Signer.SIGNATURE_BYTES);
        byte[] raw = Arrays.copyOfRange(entry, from, entry.length);
        AttributesEntry signed;
        try {
            signed = decode(raw);
        } catch (FedRapException error) {
            throw new FedRapException(
                    Kind.SIGNATURE_INVALID,
                    "not a signed entry of attributes: " + error.getMessage(), error);
        }
        if (authority != null) {
            byte[] signature = Arrays.copyOf(entry, from);
            Signer.verify(P256.publicKey(authority), Bytes.join(ENTRY, raw), signature);
        }
        if (!Arrays.equals(Bytes.sha256(pages), signed.pages)) {
            throw unsigned("other pages of attributes than were signed");
        }
        if (pages.length != DIGEST * (long) pageCount(signed)) {
            throw unsigned("more or fewer pages of attributes than the rows that were signed");
        }
        if (new HashSet<>(signed.names).size() < signed.names.size()) {
            throw unsigned("two attributes have the same name");
        }
        return signed;
    }

    private static int pageCount(AttributesEntry signed) {
        return (signed.count + signed.rows - 1) / signed.rows;
    }

    /** The digest of a page. */
    static byte[] digest(byte[] pages, int number) {
        return Arrays.copyOfRange(pages, DIGEST * number, DIGEST * (number + 1));
    }

    private static FedRapException unsigned(String why) {
        return new FedRapException(Kind.SIGNATURE_INVALID, why);
    }
}
