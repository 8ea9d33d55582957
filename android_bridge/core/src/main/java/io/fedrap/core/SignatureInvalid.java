package io.fedrap.core;

/** The signature does not belong to this device, method, path, body and nonce. */
public final class SignatureInvalid extends FedRapException {
    private static final long serialVersionUID = 1L;

    SignatureInvalid(String message) {
        super(message);
    }

    SignatureInvalid(String message, Throwable cause) {
        super(message, cause);
    }
}
