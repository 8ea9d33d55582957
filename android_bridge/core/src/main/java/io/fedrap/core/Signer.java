package io.fedrap.core;

import java.security.PrivateKey;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.LongSupplier;

/** Signs requests of one device; each one uses up a nonce (clauses 2.1 and 2.3). */
final class Signer {
    private final byte[] device;
    private final PrivateKey key;
    private final LongSupplier nonces; // each larger than every one before

    Signer(Credentials credentials, LongSupplier nonces) {
        this.device = credentials.device;
        this.key = P256.privateKey(credentials.secret);
        this.nonces = nonces;
    }

    /** The headers that prove this request. */
    Map<String, String> headers(String method, String path, byte[] body) {
        long nonce = nonces.getAsLong();
        byte[] signature = Signing.sign(key, Signing.signedBytes(method, path, body, device, nonce));
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("Fedrap-Device", Bytes.hex(device));
        headers.put("Fedrap-Nonce", Long.toString(nonce));
        headers.put("Fedrap-Signature", java.util.Base64.getEncoder().encodeToString(signature));
        return headers;
    }
}
