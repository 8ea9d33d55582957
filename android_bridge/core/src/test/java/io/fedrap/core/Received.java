package io.fedrap.core;

import java.util.Arrays;
import java.util.List;

/** What a device receives, read by the name of its type. Needs no test library. */
final class Received {
    static final List<String> TYPES =
            Arrays.asList(
                    "enrolled", "certificate", "renewed", "offer", "accepted", "signed", "release-entry", "log", "release", "delta",
                    "catalogue", "attributes", "attributes-entry", "attribute-page", "forgotten", "plan", "scoring", "offer-request");
    private static final int LIMIT = 1 << 20;

    private Received() {}

    /** The product keeps nothing of this message but the certificate. */
    private static final class Renewed {
        final byte[] certificate;

        Renewed(byte[] raw) {
            certificate = Certificate.renewed(raw);
        }
    }

    /** Of a page of the log its entries. */
    private static final class Log {
        final List<byte[]> entries;
        final byte[] head;

        Log(byte[] raw) {
            entries = Authority.logged(raw);
            head = Fields.ofMessage(raw, LIMIT, "log").bytes("head", 0, LIMIT, new byte[0]);
        }
    }

    private static final class Attributes {
        final byte[] entry;
        final byte[] pages;

        Attributes(byte[][] read) {
            entry = read[0];
            pages = read[1];
        }
    }

    private static final class Page {
        final List<byte[]> columns;

        Page(byte[] raw) {
            columns = AttributesEntry.columns(raw);
        }
    }

    /** Of this one it keeps nothing at all. */
    private static final class Accepted {
        final byte[] round;
        final byte[] digest;

        Accepted(byte[][] read) {
            round = read[0];
            digest = read[1];
        }
    }

    static Object read(String type, byte[] raw) {
        switch (type) {
            case "enrolled":
                return Enrolled.decode(raw);
            case "certificate":
                return Certificate.decode(raw);
            case "renewed":
                return new Renewed(raw);
            case "offer":
                return Offer.decode(raw);
            case "accepted":
                return new Accepted(Authority.receipt(raw));
            case "signed":
                return Signed.decode(raw);
            case "release-entry":
                return ReleaseEntry.decode(raw);
            case "log":
                return new Log(raw);
            case "release":
                return ReleaseMessage.decode(raw, LIMIT);
            case "delta":
                return ReleaseMessage.decode(raw, LIMIT);
            case "catalogue":
                return ItemList.decode(raw, LIMIT);
            case "attributes":
                return new Attributes(AttributesEntry.message(raw));
            case "attributes-entry":
                return AttributesEntry.decode(raw);
            case "attribute-page":
                return new Page(raw);
            case "forgotten":
                return Fields.ofMessage(raw, LIMIT, "forgotten");
            case "plan":
                return Plan.decode(raw);
            case "scoring":
                return Scoring.ofSolve(Fields.ofValue(raw, Plan.MAX_BYTES));
            case "offer-request":
                // No device reads a request: here it shows what every message is refused for.
                Fields f = Fields.ofMessage(raw, LIMIT, "offer-request");
                return Requests.offer(f.count("release"), f.number("wait", 0, 600, 0));
            default:
                throw new IllegalArgumentException(type);
        }
    }
}
