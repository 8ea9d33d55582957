package io.fedrap.core;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What an app's kinds of interactions mean: {@code new Kinds().counts("buy", 5).counts("dislike",
 * -1).hides("hide")}.
 *
 * <p>A number above 0 speaks for an item, one below 0 against it and its neighbours. What is recorded
 * keeps its kind, so that other numbers in a later version of the app count for the whole history.
 */
public final class Kinds {
    static final String RULE =
            "a kind counts a number from -1000 to 1000 that is not 0, or None: the item is hidden";

    private final Map<String, Double> weights = new LinkedHashMap<>(); // null: hides the item
    private boolean closed = true;

    /** None yet. */
    public Kinds() {}

    /** For an app that names none: every word counts 1, but dislike counts -1 and hide hides. */
    static Kinds anyWord() {
        Kinds kinds = new Kinds().counts("dislike", -1).hides("hide");
        kinds.closed = false;
        return kinds;
    }

    /**
     * Interactions of this kind count so much.
     *
     * @throws IllegalArgumentException not a number from -1000 to 1000, or 0
     */
    public Kinds counts(String kind, double weight) {
        Arguments.text(String.valueOf(kind), kind, 50, Arguments.KIND);
        if (Arguments.number(kind, weight, -1000, 1000, RULE) == 0) {
            throw Arguments.wrong(kind, RULE);
        }
        weights.put(kind, weight);
        return this;
    }

    /** Interactions of this kind hide their item. */
    public Kinds hides(String kind) {
        Arguments.text(String.valueOf(kind), kind, 50, Arguments.KIND);
        weights.put(kind, null);
        return this;
    }

    /** What a kind counts; null where it hides. One that the app does not name (any more) counts 1. */
    Double weight(String kind) {
        return weights.containsKey(kind) ? weights.get(kind) : (Double) 1.0;
    }

    boolean isHiding(String kind) {
        return weight(kind) == null;
    }

    /** Throws for a kind that the app does not name. */
    void check(String kind) {
        if (closed && !weights.containsKey(kind)) {
            throw Arguments.wrong("kind", "one of " + String.join(", ", weights.keySet()) + " is expected");
        }
    }

    @Override
    public String toString() {
        return "Kinds" + weights;
    }
}
