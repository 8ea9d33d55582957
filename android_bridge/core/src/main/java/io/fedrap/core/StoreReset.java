package io.fedrap.core;

/** A store that nothing could open was deleted, and the device started afresh. */
public final class StoreReset {
    /** STORE_LOCKED: the key is gone or another; STORE_DAMAGED: the files were changed. */
    public final FedRapException.Kind reason;

    /** Seconds since 1970. */
    public final double at;

    StoreReset(FedRapException.Kind reason, double at) {
        this.reason = reason;
        this.at = at;
    }

    @Override
    public String toString() {
        return "StoreReset(" + reason + " at " + at + ")";
    }
}
