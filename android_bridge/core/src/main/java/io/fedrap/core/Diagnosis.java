package io.fedrap.core;

import java.util.Collections;
import java.util.List;

/** What a store has, and what stands in the way of opening it. */
public final class Diagnosis {
    /** It can be opened as it is. */
    public final boolean opens;

    /** How many there are; 0 where the store does not open. */
    public final int interactions;

    /** What is wrong, in words; none for a healthy store. */
    public final List<String> findings;

    /** What was spent is not known any more, so the device joins no more rounds. */
    public final boolean ledgerLost;

    Diagnosis(boolean opens, int interactions, List<String> findings, boolean ledgerLost) {
        this.opens = opens;
        this.interactions = interactions;
        this.findings = Collections.unmodifiableList(findings);
        this.ledgerLost = ledgerLost;
    }

    @Override
    public String toString() {
        return "Diagnosis(" + (opens ? "opens" : "does not open") + ", " + findings.size() + " findings)";
    }
}
