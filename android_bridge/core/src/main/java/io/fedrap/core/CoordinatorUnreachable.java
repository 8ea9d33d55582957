package io.fedrap.core;

/** No usable answer from the coordinator; the same call may work later. */
public final class CoordinatorUnreachable extends FedRapException {
    private static final long serialVersionUID = 1L;

    CoordinatorUnreachable(String message) {
        super(message);
    }

    CoordinatorUnreachable(String message, Throwable cause) {
        super(message, cause);
    }
}
