package io.fedrap.core;

/** An attestation of the platform: a word for its kind, and bytes made for a challenge. */
public final class Proof {
    static final Proof NONE = new Proof("none", new byte[0]);

    final String kind;
    final byte[] blob;

    /** Kind of 1 to 40 characters, at most 16384 bytes. */
    public Proof(String kind, byte[] blob) {
        this.kind = kind;
        this.blob = blob.clone();
    }

    /** Makes proofs, where a coordinator asks for them. It may block, and throw when it cannot. */
    public interface Source {
        /** The platform's proof for these 32 bytes. */
        Proof prove(byte[] challenge) throws Exception;
    }

    @Override
    public String toString() {
        return "Proof(...)";
    }
}
