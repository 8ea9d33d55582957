package io.fedrap.core;

/**
 * Everything this library throws on purpose; the names are those of the Python SDK.
 *
 * <pre>
 * FedRapException
 * ├─ MalformedMessage        the peer's bytes are wrong, or were sealed for somebody else
 * ├─ UnsupportedVersion      the peer speaks another major version or an unknown message
 * ├─ TooLarge                more bytes than this message may have
 * ├─ SignatureInvalid        the request was not signed by that device
 * ├─ WrongShape              well-formed numbers that do not fit the round's model
 * ├─ NotFinite               a number is NaN, infinite or absurdly large
 * ├─ BrokenModel             a release whose matrix nobody should compute with
 * ├─ StoreBusy               another process has this store open
 * ├─ StoreLocked             the key does not open this store
 * ├─ StoreDamaged            the files are not a store, or could not be written
 * ├─ StoreClosed             the device was closed or erased; open it again
 * ├─ CoordinatorUnreachable  no usable answer; try again later
 * └─ UpdateRefused           the coordinator said no: a problem, and perhaps when to come back
 * </pre>
 *
 * An IllegalArgumentException means that the caller made a mistake in code. {@code record} and
 * {@code recommend} never throw for network reasons; {@code runRound} reports them instead.
 */
public class FedRapException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    FedRapException(String message) {
        super(message);
    }

    FedRapException(String message, Throwable cause) {
        super(message, cause);
    }
}
