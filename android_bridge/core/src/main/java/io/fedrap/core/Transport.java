package io.fedrap.core;

import java.util.List;

/**
 * The seam to the coordinator, in domain verbs; addresses exist only in {@link UrlTransport}.
 *
 * <p>Every call throws COORDINATOR_UNREACHABLE, {@link UpdateRefused} or STOPPED, and nothing else
 * for the peer.
 */
interface Transport {
    /** Become a device of the task. */
    Enrolled enrol(String token, byte[] publicKey, Proof proof);

    /** A new certificate for the same key; a proof is made for a nonce never used before. */
    byte[] renew(Signer signer, Proof proof, long nonce);

    /** The latest release, or what makes it out of version {@code have}; null when that is it. */
    ReleaseMessage release(Long have);

    /** The bytes of one version of C, whole; also of one that is staged. The device itself checks them. */
    byte[] releaseOf(long version);

    /** The signed entries of the releases beyond version {@code since}. */
    List<byte[]> log(long since);

    /** The items from row {@code start} on. */
    ItemList catalogue(long start);

    /** Which pages the items' public attributes are in, as signed. */
    byte[][] attributes();

    /** The bytes of one of these pages; the device itself checks their digest. */
    byte[] attributePage(byte[] digest);

    /**
     * Ask for a place in a round, holding that release; {@code wait} seconds for the answer. The signed
     * offer, as it came: the device itself checks who signed it.
     */
    Signed offer(Signer signer, long release, double wait);

    /** Hand in a sealed update for a signed receipt; the same bytes may be sent again. */
    Signed sendUpdate(Signer signer, byte[] round, byte[] body);

    /** The questions about quality that are open, as bytes; the same for everybody. */
    byte[] questions();

    /** Hand in a sealed answer for a signed receipt; the same bytes may be sent again. */
    Signed sendAnswer(Signer signer, byte[] question, byte[] body);

    /** This device is no more; the coordinator drops its key. */
    void forget(Signer signer);

    /** Give back what was opened. */
    void close();
}
