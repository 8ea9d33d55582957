package io.fedrap.core;

import org.jspecify.annotations.Nullable;

/** What {@link FedRap#runRound} did, and if nothing, why and when to come back. */
public final class RoundReport {
    /** An update was handed in. */
    public final boolean joined;

    /** A word of {@link Eligibility}, of the ledger, or a code of the coordinator; null when joined. */
    public final @Nullable String blockedBy;

    /** Seconds until trying again could help; null where nobody said. */
    public final @Nullable Double retryAfter;

    /** Number of the release that the round makes; null where there was no offer. */
    public final @Nullable Long step;

    /** Bytes of the update, sealed. */
    public final int sentBytes;

    /** Of this device's own history, which stays here; null where nothing was computed. */
    public final @Nullable Double loss;

    /** With {@code policy-changed}: what the user would agree to now; otherwise null. */
    public final @Nullable Statement offered;

    private RoundReport(
            boolean joined, String blockedBy, Double retryAfter, Long step, int sentBytes, Double loss,
            Statement offered) {
        this.offered = offered;
        this.joined = joined;
        this.blockedBy = blockedBy;
        this.retryAfter = retryAfter;
        this.step = step;
        this.sentBytes = sentBytes;
        this.loss = loss;
    }

    static RoundReport blocked(String word) {
        return new RoundReport(false, word, null, null, 0, null, null);
    }

    static RoundReport blocked(String word, Double retryAfter) {
        return new RoundReport(false, word, retryAfter, null, 0, null, null);
    }

    /** There was an offer, which this device does not follow. */
    static RoundReport declined(String word, long step, Statement offered) {
        return new RoundReport(false, word, null, step, 0, null, offered);
    }

    static RoundReport joined(Long step, int sentBytes, Double loss) {
        return new RoundReport(true, null, null, step, sentBytes, loss, null);
    }

    @Override
    public String toString() {
        return joined ? "joined, " + sentBytes + " bytes" : "not joined: " + blockedBy;
    }
}
