package io.fedrap.core;

/** Rows, dimensions or counts do not fit the model of the round. */
public final class WrongShape extends FedRapException {
    private static final long serialVersionUID = 1L;

    WrongShape(String message) {
        super(message);
    }

    WrongShape(String message, Throwable cause) {
        super(message, cause);
    }
}
