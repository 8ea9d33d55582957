package io.fedrap.core;

/** Another process has this store open; close it there first. */
public final class StoreBusy extends FedRapException {
    private static final long serialVersionUID = 1L;

    StoreBusy(String message) {
        super(message);
    }

    StoreBusy(String message, Throwable cause) {
        super(message, cause);
    }
}
