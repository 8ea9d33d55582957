package io.fedrap.core;

/** The message is of a major version or type that this code does not know. */
public final class UnsupportedVersion extends FedRapException {
    private static final long serialVersionUID = 1L;

    UnsupportedVersion(String message) {
        super(message);
    }

    UnsupportedVersion(String message, Throwable cause) {
        super(message, cause);
    }
}
