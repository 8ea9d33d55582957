package io.fedrap.core;

/** A number is NaN, infinite or beyond what any honest computation gives. */
public final class NotFinite extends FedRapException {
    private static final long serialVersionUID = 1L;

    NotFinite(String message) {
        super(message);
    }

    NotFinite(String message, Throwable cause) {
        super(message, cause);
    }
}
