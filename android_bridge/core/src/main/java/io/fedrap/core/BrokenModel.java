package io.fedrap.core;

/** A matrix C that must not be used: non-finite, huge or of the wrong shape. */
public final class BrokenModel extends FedRapException {
    private static final long serialVersionUID = 1L;

    BrokenModel(String message) {
        super(message);
    }

    BrokenModel(String message, Throwable cause) {
        super(message, cause);
    }
}
