package io.fedrap.core;

/** The device was closed or erased; open it again. */
public final class StoreClosed extends FedRapException {
    private static final long serialVersionUID = 1L;

    StoreClosed(String message) {
        super(message);
    }

    StoreClosed(String message, Throwable cause) {
        super(message, cause);
    }
}
