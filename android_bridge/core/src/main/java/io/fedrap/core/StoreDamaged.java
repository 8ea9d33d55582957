package io.fedrap.core;

/** The files are not a store of this version; the message says what can be done. */
public final class StoreDamaged extends FedRapException {
    private static final long serialVersionUID = 1L;

    StoreDamaged(String message) {
        super(message);
    }

    StoreDamaged(String message, Throwable cause) {
        super(message, cause);
    }
}
