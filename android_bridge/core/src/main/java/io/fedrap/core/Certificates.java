package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Certificates of devices: the enrolment authority signs whose key it is, and until when (3.5 to 3.7).
 *
 * <p>64 bytes of signature (r, s), then the bytes of a {@code certificate} message, as signed.
 */
final class Certificates {
    private static final byte[] PREFIX = ascii("fedrap/1 certificate\n");
    private static final int MAX_BYTES = 1024;

    private Certificates() {}

    /**
     * What the authority certified. Whether it is still good is for the caller to say.
     *
     * @throws FedRapException SIGNATURE_INVALID: not signed by this authority; MALFORMED_MESSAGE,
     *     UNSUPPORTED_VERSION, TOO_LARGE: not a certificate.
     */
    static Certificate read(byte[] authority, byte[] signed) {
        if (signed.length <= Signing.SIGNATURE_BYTES) {
            throw new FedRapException(Kind.SIGNATURE_INVALID, "not a signed certificate");
        }
        byte[] raw = Arrays.copyOfRange(signed, Signing.SIGNATURE_BYTES, signed.length);
        byte[] signature = Arrays.copyOf(signed, Signing.SIGNATURE_BYTES);
        Signing.verify(P256.publicKey(authority), Bytes.join(PREFIX, raw), signature);
        if (raw.length > MAX_BYTES) {
            throw new FedRapException(Kind.TOO_LARGE, raw.length + " bytes of a certificate");
        }
        return Certificate.decode(raw);
    }

    /** What an attestation at enrolment must be made for: this key and this token. */
    static byte[] enrolChallenge(byte[] publicKey, String token) {
        byte[] hashed = Bytes.sha256(token.getBytes(StandardCharsets.UTF_8));
        return Bytes.sha256(ascii("fedrap/1 attest enrol"), publicKey, hashed);
    }

    /** At renewal: this key and a nonce that was never used, so that no proof serves twice. */
    static byte[] renewChallenge(byte[] publicKey, long nonce) {
        return Bytes.sha256(
                ascii("fedrap/1 attest renew"), publicKey, Bytes.bigEndian(nonce, 8));
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    /** The new certificate out of the message that brings it; throws as {@link Fields#ofMessage}. */
    static byte[] renewed(byte[] raw) {
        return Fields.ofMessage(raw, Fields.MAX_BYTES, "renewed").bytes("certificate", 0, 1024);
    }
}
