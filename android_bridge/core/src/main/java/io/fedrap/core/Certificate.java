package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Certificates of devices: the enrolment authority signs whose key it is, and until when (3.5 to 3.7).
 *
 * <p>64 bytes of signature (r, s), then the bytes of a {@code certificate} message, as signed.
 */
final class Certificate {
    private static final byte[] PREFIX = Bytes.ascii("fedrap/1 certificate\n");
    private static final int MAX_BYTES = 1024;

    final byte[] task;
    final byte[] device;
    final byte[] publicKey;
    final String level; // of the attestation
    final double issuedAt; // seconds since 1970
    final double expiresAt;

    private Certificate(Fields fields) {
        task = fields.id16("task");
        device = fields.id16("device");
        publicKey = fields.point("public_key");
        level = fields.text("level", 1, 40);
        issuedAt = fields.number("issued_at", 0, 1e12);
        expiresAt = fields.number("expires_at", 0, 1e12);
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Certificate decode(byte[] raw) {
        return new Certificate(Fields.ofMessage(raw, Fields.MAX_BYTES, "certificate"));
    }

    /**
     * What the authority certified. Whether it is still good is for the caller to say.
     *
     * @throws FedRapException SIGNATURE_INVALID: not signed by this authority; MALFORMED_MESSAGE,
     *     UNSUPPORTED_VERSION, TOO_LARGE: not a certificate.
     */
    static Certificate read(byte[] authority, byte[] signed) {
        if (signed.length <= Signer.SIGNATURE_BYTES) {
            throw new FedRapException(Kind.SIGNATURE_INVALID, "not a signed certificate");
        }
        byte[] raw = Arrays.copyOfRange(signed, Signer.SIGNATURE_BYTES, signed.length);
        byte[] signature = Arrays.copyOf(signed, Signer.SIGNATURE_BYTES);
        Signer.verify(P256.publicKey(authority), Bytes.join(PREFIX, raw), signature);
        if (raw.length > MAX_BYTES) {
            throw new FedRapException(Kind.TOO_LARGE, raw.length + " bytes of a certificate");
        }
        return decode(raw);
    }

    /** What an attestation at enrolment must be made for: this key and this token. */
    static byte[] enrolChallenge(byte[] publicKey, String token) {
        byte[] hashed = Bytes.sha256(token.getBytes(StandardCharsets.UTF_8));
        return Bytes.sha256(Bytes.ascii("fedrap/1 attest enrol"), publicKey, hashed);
    }

    /** At renewal: this key and a nonce that was never used, so that no proof serves twice. */
    static byte[] renewChallenge(byte[] publicKey, long nonce) {
        return Bytes.sha256(
                Bytes.ascii("fedrap/1 attest renew"), publicKey, Bytes.bigEndian(nonce, 8));
    }

    /** The new certificate out of the message that brings it; throws as {@link Fields#ofMessage}. */
    static byte[] renewed(byte[] raw) {
        return Fields.ofMessage(raw, Fields.MAX_BYTES, "renewed").bytes("certificate", 0, 1024);
    }
}
