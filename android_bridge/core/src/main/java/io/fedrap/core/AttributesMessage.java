package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.util.Arrays;
import java.util.HashSet;

/** Coordinator to anybody: which pages the public attributes of the items are in (clause 11.1). */
final class AttributesMessage {
    static final int DIGEST = 32;
    private static final int MOST_BYTES = 4 * 1024 * 1024;
    private static final byte[] ENTRY =
            Bytes.ascii("fedrap/1 attributes-entry\n");

    final byte[] entry; // a signature and an AttributesEntry
    final byte[] pages; // 32 bytes each, in order

    private AttributesMessage(Fields fields) {
        entry = fields.bytes("entry", 0, Authority.ENTRY_BYTES);
        pages = fields.bytes("pages", 0, MOST_BYTES);
    }

    /** Throws as {@link Fields#ofMessage}. */
    static AttributesMessage decode(byte[] raw) {
        return new AttributesMessage(Fields.ofMessage(raw, Fields.MAX_BYTES, "attributes"));
    }

    /**
     * The entry, once it is found to speak of these pages and to be signed; null is an authority that is
     * not known yet.
     *
     * @throws FedRapException SIGNATURE_INVALID: not signed, or other pages than the authority signed.
     */
    AttributesEntry checked(byte[] authority) {
        int from = Math.min(entry.length, Signer.SIGNATURE_BYTES);
        byte[] raw = Arrays.copyOfRange(entry, from, entry.length);
        AttributesEntry signed;
        try {
            signed = AttributesEntry.decode(raw);
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
