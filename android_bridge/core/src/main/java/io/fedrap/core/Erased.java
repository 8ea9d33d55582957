package io.fedrap.core;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** The receipt of {@code erase}. */
public final class Erased {
    /** Files of the store, and {@code key}. */
    public final List<String> deleted;

    /** The coordinator has dropped this device's key and record, or never had them. */
    public final boolean coordinatorConfirmed;

    /** A word of {@link Eligibility}, or a problem code; null when confirmed. */
    public final @Nullable String notConfirmedBecause;

    /** What no deletion takes back, for the user to read. */
    public final String note =
            "What this device added to earlier rounds is part of sums with the updates of others, "
                    + "and cannot be taken back. Without the key, copies of the store in backups stay sealed.";

    Erased(List<String> deleted, String notConfirmedBecause) {
        this.deleted = deleted;
        this.coordinatorConfirmed = notConfirmedBecause == null;
        this.notConfirmedBecause = notConfirmedBecause;
    }

    @Override
    public String toString() {
        return "Erased(" + deleted + ", confirmed " + coordinatorConfirmed + ")";
    }
}
