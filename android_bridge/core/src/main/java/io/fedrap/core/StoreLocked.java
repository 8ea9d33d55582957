package io.fedrap.core;

/** The key is not the one that this store was made with, or it is gone. */
public final class StoreLocked extends FedRapException {
    private static final long serialVersionUID = 1L;

    StoreLocked(String message) {
        super(message);
    }

    StoreLocked(String message, Throwable cause) {
        super(message, cause);
    }
}
