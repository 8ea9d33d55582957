package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;

/**
 * What the task's authority signs: offers, receipts, and the log of releases (clauses 9).
 *
 * <p>A device takes them only from the authority whose key it keeps. Releases are entries of a log,
 * each of which names the digest of the one before it; an entry travels as 64 bytes of signature and
 * the bytes of a {@code release-entry}, as signed. An authority is given as its point.
 */
final class Authority {
    static final int ENTRY_BYTES = 1024; // of a signed entry, at the most
    private static final byte[] SIGNED = Bytes.ascii("fedrap/1 signed\n");
    private static final byte[] ENTRY = Bytes.ascii("fedrap/1 release-entry\n");
    private static final byte[] LOG = Bytes.ascii("fedrap/1 log");

    private Authority() {}

    /**
     * The point in a text that an app pins, in hex or base64.
     *
     * @throws IllegalArgumentException it is none
     */
    static byte[] point(String text) {
        byte[] raw = new byte[0];
        if (text.matches("([0-9a-fA-F]{2})+")) {
            raw = Bytes.unhex(text);
        } else {
            try {
                raw = Base64.getDecoder().decode(text.trim());
            } catch (IllegalArgumentException error) {
                // The same words as for every other text that is no key.
            }
        }
        return checked(raw);
    }

    /** The same point; throws IllegalArgumentException where it is none. */
    static byte[] checked(byte[] point) {
        try {
            P256.publicKey(point);
        } catch (FedRapException error) {
            throw new IllegalArgumentException(
                    "an authority is the point that `fedrap-coordinator authority` prints", error);
        }
        return point.clone();
    }

    /**
     * The bytes of the message that the authority signed.
     *
     * @throws FedRapException SIGNATURE_INVALID: it did not.
     */
    static byte[] open(byte[] authority, Signed signed, String what) {
        byte[] message = Bytes.join(SIGNED, signed.body);
        try {
            Signer.verify(P256.publicKey(authority), message, signed.signature);
        } catch (FedRapException error) {
            throw new FedRapException(
                    Kind.SIGNATURE_INVALID, "the answer is no " + what + " of the task's authority", error);
        }
        return signed.body;
    }

    /**
     * Returns when the authority signed that it has these bytes, of that round or question.
     *
     * @throws FedRapException SIGNATURE_INVALID: it did not; COORDINATOR_UNREACHABLE: it has others.
     */
    static void checkReceipt(byte[] authority, Signed signed, byte[] round, byte[] body) {
        byte[] raw = open(authority, signed, "receipt");
        byte[][] said;
        try {
            said = receipt(raw);
        } catch (FedRapException error) {
            throw notRead(error);
        }
        if (!Arrays.equals(said[0], round) || !Arrays.equals(said[1], Bytes.sha256(body))) {
            throw FedRapException.unreachable("the receipt is for other bytes");
        }
    }

    /** Whose bytes a receipt is for, and their SHA-256; throws as {@link Fields#ofMessage}. */
    static byte[][] receipt(byte[] raw) {
        Fields fields = Fields.ofMessage(raw, Fields.MAX_BYTES, "accepted");
        return new byte[][] {fields.id16("round"), fields.digest("digest")};
    }

    /** Signed, but of another version. */
    static FedRapException notRead(FedRapException error) {
        return FedRapException.unreachable("not an answer of this protocol: " + error.getMessage(), error);
    }

    /**
     * What an entry says; who signed it is not looked at.
     *
     * @throws FedRapException SIGNATURE_INVALID: it is not an entry.
     */
    static ReleaseEntry read(byte[] signed) {
        int from = Math.min(signed.length, Signer.SIGNATURE_BYTES);
        try {
            return ReleaseEntry.decode(Arrays.copyOfRange(signed, from, signed.length));
        } catch (FedRapException error) {
            throw new FedRapException(
                    Kind.SIGNATURE_INVALID,
                    "not a signed entry of the log of releases: " + error.getMessage(), error);
        }
    }

    /** Did this authority sign this entry? */
    static boolean isSignedBy(byte[] authority, byte[] signed) {
        int from = Math.min(signed.length, Signer.SIGNATURE_BYTES);
        byte[] message = Bytes.join(ENTRY, Arrays.copyOfRange(signed, from, signed.length));
        try {
            Signer.verify(P256.publicKey(authority), message, Arrays.copyOf(signed, from));
            return true;
        } catch (FedRapException error) {
            return false;
        }
    }

    /** The digest by which the next entry names this one; zeros where there is none. */
    static byte[] digest(byte[] signed) {
        return signed.length == 0
                ? new byte[32]
                : Bytes.sha256(LOG, Arrays.copyOfRange(signed, Signer.SIGNATURE_BYTES, signed.length));
    }

    /**
     * Its entry, when the release is what the authority signed; null is an authority not known yet.
     *
     * @throws FedRapException SIGNATURE_INVALID: it is not.
     */
    static ReleaseEntry checkRelease(byte[] authority, ReleaseMessage message) {
        ReleaseEntry entry = read(message.entry);
        if (authority != null && !isSignedBy(authority, message.entry)) {
            throw unsigned(entry, "is not signed by the task's authority");
        }
        boolean same =
                Arrays.equals(message.task, entry.task)
                        && message.version == entry.version
                        && message.step == entry.step
                        && message.size == entry.size
                        && message.dim == entry.dim
                        && message.catalogue == entry.catalogue
                        && message.scoring.toMap().equals(entry.scoring.toMap())
                        && Arrays.equals(message.model, entry.model)
                        && Arrays.equals(Bytes.sha256(message.withheld), entry.withheld)
                        && (message.isDelta() || message.clip == entry.clip);
        if (!same) {
            throw unsigned(entry, "says something else than was signed");
        }
        return entry;
    }

    static FedRapException unsigned(ReleaseEntry entry, String why) {
        return new FedRapException(Kind.SIGNATURE_INVALID, "release " + entry.version + " " + why);
    }

    /**
     * Is this the entry after the one that is held? If not, the log may lead from one to the other.
     *
     * @throws FedRapException FORKED_LOG: it can never be.
     */
    static boolean followsAtOnce(byte[] held, byte[] signed) {
        ReleaseEntry last = read(held);
        ReleaseEntry entry = read(signed);
        if (entry.version == last.version) {
            throw forked(
                    "there are two releases " + entry.version + ": this is not the one that is held");
        }
        if (entry.version < last.version || entry.step < last.step) {
            throw forked(
                    "release " + entry.version + " of step " + entry.step + " lies behind release "
                            + last.version + " of step " + last.step + ", which is held");
        }
        return Arrays.equals(entry.before, digest(held));
    }

    /**
     * Returns when these entries follow each other, and the first of them the one that is held. The last
     * one is signed and each names the one before it, so all of them are what was signed.
     *
     * @throws FedRapException FORKED_LOG: they do not.
     */
    static void checkLeads(byte[] held, List<byte[]> following) {
        ReleaseEntry last = read(held);
        byte[] digest = digest(held);
        for (byte[] signed : following) {
            ReleaseEntry entry = read(signed);
            if (!Arrays.equals(entry.before, digest) || !Arrays.equals(entry.task, last.task)) {
                throw forked(
                        "release " + entry.version + " does not follow from release " + last.version
                                + ", which is held: this device was shown another history than others");
            }
            if (entry.version <= last.version || entry.step < last.step) {
                throw forked(
                        "the log goes back from release " + last.version + " to release " + entry.version);
            }
            last = entry;
            digest = digest(signed);
        }
    }

    /** Signed entries of the log in a row, of a page of it; throws as {@link Fields#ofMessage}. */
    static List<byte[]> logged(byte[] raw) {
        Fields fields = Fields.ofMessage(raw, Fields.MAX_BYTES, "log");
        fields.bytes("head", 0, ENTRY_BYTES, new byte[0]); // of the latest release, which is fetched anyway
        return fields.binaries("entries", 200, ENTRY_BYTES);
    }

    static FedRapException forked(String why) {
        return new FedRapException(Kind.FORKED_LOG, why);
    }
}
