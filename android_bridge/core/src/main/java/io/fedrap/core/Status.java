package io.fedrap.core;

import org.jspecify.annotations.Nullable;

/** Where this device stands. Nothing in it leaves the device. */
public final class Status {
    /** The user agreed to train. */
    public final boolean consented;

    /** The user agreed that releases are fetched; null when never asked. */
    public final @Nullable Boolean fetching;

    /** Items that are never recommended. */
    public final int hidden;

    /** Records that could not be read, each with a word for why; they are kept as they were. */
    public final java.util.List<String> setAside;

    /** The coordinator knows this device. */
    public final boolean enrolled;

    /** How many there are. */
    public final int interactions;

    /** Items with a row in D, as the last round left it. */
    public final int personalItems;

    /** Version of C; null before the first sync. */
    public final @Nullable Long release;

    /** Rounds that this device is charged for. */
    public final int rounds;

    /** Of those rounds and of answers, unamplified; infinite without noise. */
    public final double epsilon;
    /** The user agreed that questions about quality are answered. */
    public final boolean measuring;
    /** Questions that this device answered. */
    public final int answers;
    /** Epsilon of those alone. */
    public final double answersEpsilon;

    /** Updates that still have to be sent. */
    public final int pending;

    /** Local rounds whose numbers ran away and that were dropped. */
    public final long dropped;
    /** What computes rounds. */
    public final String trainer;
    /** Why that one. */
    public final String trainerReason;

    /** Why a round would not run now: a word of {@link Eligibility}, or null. */
    public final @Nullable String blockedBy;

    /** The guarantee of the last round's policy; null before one. */
    public final @Nullable Statement privacy;

    /** {@code sealed}: one server reads updates while it adds them; {@code split}: two, of which none does. */
    public final String aggregation;
    /** The second server that the app pins, as hex; null without one. */
    public final @Nullable String helper;
    /** This way of aggregation wants outside review. */
    public final boolean experimental;
    /** Why the store was started afresh, once, in seconds since 1970 and words; null if it never was. */
    public final @Nullable StoreReset storeReset;

    Status(DeviceState state, Config config, String blockedBy, StoreReset storeReset) {
        java.util.List<Ledger.Entry> entries = state.entries();
        LocalModel model = state.inUse();
        this.consented = state.consented();
        this.fetching = state.fetching();
        this.hidden = state.hidden().size();
        this.setAside = java.util.Collections.unmodifiableList(state.setAside());
        this.enrolled = state.credentials() != null;
        this.interactions = state.recorded();
        this.personalItems = state.personal().size();
        this.release = model == null ? null : (Long) model.common.version;
        this.rounds = Ledger.chargedSteps(entries);
        this.epsilon = Ledger.epsilon(entries);
        this.measuring = state.mayMeasure();
        java.util.List<Ledger.Entry> answered = Ledger.answers(entries);
        this.answers = answered.size();
        this.answersEpsilon = Ledger.epsilon(answered);
        this.pending = state.outbox().size();
        this.dropped = state.dropped();
        this.trainer = config.trainer.name();
        this.trainerReason = config.trainerReason;
        this.blockedBy = blockedBy;
        Ledger.Entry last = Ledger.agreed(entries);
        this.privacy = last == null ? null : new Statement(last.rule, config.aggregation);
        this.storeReset = storeReset;
        Aggregation pair = config.aggregation;
        this.aggregation = pair == null ? "sealed" : pair.name();
        this.helper = pair == null ? null : Bytes.hex(pair.helper());
        this.experimental = pair != null;
    }

    @Override
    public String toString() {
        return "Status(interactions " + interactions + ", release " + release + ", rounds " + rounds
                + ", blocked by " + blockedBy + ")";
    }
}
