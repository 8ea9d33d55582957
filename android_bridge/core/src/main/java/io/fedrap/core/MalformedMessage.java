package io.fedrap.core;

/** The bytes are not what they claim to be. Sealing failures look the same, on purpose. */
public final class MalformedMessage extends FedRapException {
    private static final long serialVersionUID = 1L;

    MalformedMessage(String message) {
        super(message);
    }

    MalformedMessage(String message, Throwable cause) {
        super(message, cause);
    }
}
