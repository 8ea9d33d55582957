package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.Signature;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * ECDSA P-256 with SHA-256; a signature is r and s, 32 bytes each (clause 2.1).
 *
 * <p>A device signs each request: method, path, digest of the body and a number that only grows, so that
 * each uses one up (clauses 2.1 and 2.3).
 */
final class Signer {
    static final int SIGNATURE_BYTES = 64;

    private final byte[] device;
    private final PrivateKey key;
    private final DeviceState state; // gives numbers, each larger than every one before

    Signer(Credentials credentials, DeviceState state) {
        this.device = credentials.device;
        this.key = P256.privateKey(credentials.secret);
        this.state = state;
    }

    /** The headers that prove this request. */
    Map<String, String> headers(String method, String path, byte[] body) {
        long nonce = state.nextNonce();
        byte[] signature = sign(key, signedBytes(method, path, body, device, nonce));
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("Fedrap-Device", Bytes.hex(device));
        headers.put("Fedrap-Nonce", Long.toString(nonce));
        headers.put("Fedrap-Signature", java.util.Base64.getEncoder().encodeToString(signature));
        return headers;
    }

    /** What is signed: one line each, so that no two requests give the same bytes. */
    static byte[] signedBytes(String method, String path, byte[] body, byte[] device, long nonce) {
        String lines =
                "fedrap/1 request\n" + method + "\n" + path + "\n" + Bytes.hex(Bytes.sha256(body))
                        + "\n" + Bytes.hex(device) + "\n" + nonce;
        return lines.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] sign(PrivateKey key, byte[] message) {
        try {
            Signature signature = Signature.getInstance("SHA256withECDSA");
            signature.initSign(key);
            signature.update(message);
            return fromDer(signature.sign());
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("this platform cannot sign with ECDSA", error);
        }
    }

    /**
     * Returns when the signature is good.
     *
     * @throws FedRapException SIGNATURE_INVALID: it is not.
     */
    static void verify(PublicKey key, byte[] message, byte[] signature) {
        if (signature.length != SIGNATURE_BYTES) {
            throw new FedRapException(Kind.SIGNATURE_INVALID, "a signature has 64 bytes");
        }
        boolean good;
        try {
            Signature verifier = Signature.getInstance("SHA256withECDSA");
            verifier.initVerify(key);
            verifier.update(message);
            good = verifier.verify(toDer(signature));
        } catch (GeneralSecurityException error) { // providers also throw for numbers out of range
            good = false;
        }
        if (!good) {
            throw new FedRapException(
                    Kind.SIGNATURE_INVALID,
                    "the signature does not fit the request");
        }
    }

    private static byte[] toDer(byte[] signature) {
        byte[] r = integer(Arrays.copyOfRange(signature, 0, 32));
        byte[] s = integer(Arrays.copyOfRange(signature, 32, 64));
        return Bytes.join(new byte[] {0x30, (byte) (r.length + s.length)}, r, s);
    }

    private static byte[] integer(byte[] number) {
        byte[] raw = new BigInteger(1, number).toByteArray();
        return Bytes.join(new byte[] {2, (byte) raw.length}, raw);
    }

    /** SEQUENCE { INTEGER r, INTEGER s }; of P-256 every length fits one byte. */
    private static byte[] fromDer(byte[] der) {
        int size = der[3];
        BigInteger r = new BigInteger(Arrays.copyOfRange(der, 4, 4 + size));
        BigInteger s = new BigInteger(Arrays.copyOfRange(der, 6 + size, der.length));
        return Bytes.join(P256.fixed(r), P256.fixed(s));
    }
}
