package io.fedrap.core;

/** The message has more bytes than its kind may have. */
public final class TooLarge extends FedRapException {
    private static final long serialVersionUID = 1L;

    TooLarge(String message) {
        super(message);
    }

    TooLarge(String message, Throwable cause) {
        super(message, cause);
    }
}
