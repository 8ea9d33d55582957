package io.fedrap.core;

import org.jspecify.annotations.Nullable;

/** What must hold on the device for a round to run; a platform asks its own services. */
public interface Conditions {
    /** Whatever the device is doing: for an app that has looked before it calls. */
    Conditions ALWAYS = () -> null;

    /**
     * A word of {@link Eligibility} for the first condition that is not met, or null. Asked before
     * anything is sent; one that throws counts as not met.
     */
    @Nullable String blockedBy();
}
