package io.fedrap.core;

import java.util.Arrays;

/**
 * What this library throws on purpose. {@link #kind()} says what happened, the message what to do.
 *
 * <p>An {@link IllegalArgumentException} means that the caller made a mistake in code.
 */
public class FedRapException extends RuntimeException {
    /** What happened; the same words as the errors of the Python SDK. */
    public enum Kind {
        /** The peer's bytes are wrong, or were sealed for somebody else. */
        MALFORMED_MESSAGE,
        /** The peer speaks another major version or an unknown message. */
        UNSUPPORTED_VERSION,
        /** More bytes than this message may have. */
        TOO_LARGE,
        /** Not signed by whom it should be. */
        SIGNATURE_INVALID,
        /** A release that does not follow from the one that is held. */
        FORKED_LOG,
        /** The coordinator is not the one whose authority the app pins. */
        ANOTHER_AUTHORITY,
        /** An enrolment token that enrols nobody. */
        TOKEN_INVALID,
        /** Well-formed numbers that do not fit the round's model. */
        WRONG_SHAPE,
        /** A number is NaN, infinite or absurdly large. */
        NOT_FINITE,
        /** A release whose matrix nobody should compute with. */
        BROKEN_MODEL,
        /** A plan whose method this library does not compute. */
        UNSUPPORTED_METHOD,
        /** The trainer that was asked for cannot run here. */
        TRAINER_UNAVAILABLE,
        /** Another process, or another object of this one, has the store open. */
        STORE_BUSY,
        /** The key is not the one that the store was made with, or it is gone. */
        STORE_LOCKED,
        /** The files are not a store of this version, or cannot be written. */
        STORE_DAMAGED,
        /** The device was closed or erased; open it again. */
        STORE_CLOSED,
        /** No usable answer from the coordinator; the same call may work later. */
        COORDINATOR_UNREACHABLE,
        /** The coordinator said no: see {@link UpdateRefused}. */
        UPDATE_REFUSED,
        /** The call was cut short by {@code stop()} or {@code close()}; it may be made again. */
        STOPPED
    }

    private static final long serialVersionUID = 1L;
    private final Kind kind;

    public FedRapException(Kind kind, String message) {
        super(message);
        this.kind = kind;
    }

    public FedRapException(Kind kind, String message, Throwable cause) {
        super(message, cause);
        this.kind = kind;
    }

    /** What happened. */
    public Kind kind() {
        return kind;
    }

    static FedRapException broken(String why) {
        return new FedRapException(Kind.BROKEN_MODEL, why);
    }

    static FedRapException malformed(String why) {
        return new FedRapException(Kind.MALFORMED_MESSAGE, why);
    }

    static FedRapException wrongShape(String why) {
        return new FedRapException(Kind.WRONG_SHAPE, why);
    }

    static FedRapException otherMethod(String what) {
        return new FedRapException(
                Kind.UNSUPPORTED_METHOD, what + "; this device computes solve only");
    }

    boolean isOneOf(Kind... kinds) {
        return Arrays.asList(kinds).contains(kind);
    }

    /** STORE_DAMAGED; the cause may be null. */
    static FedRapException locked(String why) {
        return new FedRapException(Kind.STORE_LOCKED, why);
    }

    static FedRapException damaged(String why, Throwable cause) {
        return new FedRapException(Kind.STORE_DAMAGED, why, cause);
    }

    /** STORE_DAMAGED. */
    static FedRapException damaged(String why) {
        return damaged(why, null);
    }

    /** COORDINATOR_UNREACHABLE; the cause may be null. */
    static FedRapException unreachable(String why, Throwable cause) {
        return new FedRapException(Kind.COORDINATOR_UNREACHABLE, why, cause);
    }

    /** COORDINATOR_UNREACHABLE. */
    static FedRapException unreachable(String why) {
        return unreachable(why, null);
    }
}
