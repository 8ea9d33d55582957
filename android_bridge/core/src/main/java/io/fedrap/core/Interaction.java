package io.fedrap.core;

/** One thing the user did. It never leaves the device. */
public final class Interaction {
    /** Id of the item, 1 to 200 characters. */
    public final String item;

    /** A word of the app's own, such as "buy"; "view" unless said. */
    public final String kind;

    /** How much it means, above 0 and at most 1000; 1 is a plain view. */
    public final double weight;

    /** Seconds since 1970; NaN: now. */
    public final double at;

    /** A view, now. */
    public Interaction(String item) {
        this(item, "view", 1.0, Double.NaN);
    }

    /**
     * Everything said.
     *
     * @throws IllegalArgumentException an item id, a weight or a time that is none.
     */
    public Interaction(String item, String kind, double weight, double at) {
        if (!ItemIds.isItemId(item)) {
            throw new IllegalArgumentException("an item id has 1 to 200 characters and no line break");
        }
        if (kind == null) {
            throw new IllegalArgumentException("a kind is a word");
        }
        if (!(weight > 0 && weight <= 1000)) {
            throw new IllegalArgumentException("a weight lies above 0 and at most at 1000");
        }
        if (Double.isInfinite(at)) {
            throw new IllegalArgumentException("a time is a finite number of seconds since 1970");
        }
        this.item = item;
        this.kind = kind;
        this.weight = weight;
        this.at = at;
    }

    /** Nothing happened later than {@code latest}. */
    Interaction notAfter(double latest) {
        boolean early = !Double.isNaN(at) && at <= latest;
        return early ? this : new Interaction(item, kind, weight, latest);
    }

    @Override
    public String toString() {
        return "Interaction(...)"; // what a user did belongs in no log
    }
}
