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
        this(Arguments.item("item", item), Arguments.text("kind", kind, 50, Arguments.KIND),
                Arguments.weight("weight", weight), Arguments.time("at", at), true);
    }

    private Interaction(String item, String kind, double weight, double at, boolean checked) {
        this.item = item;
        this.kind = kind;
        this.weight = weight;
        this.at = at;
    }

    /** As a store has it, whatever version wrote it. */
    static Interaction stored(String item, String kind, double weight, double at) {
        boolean good = item != null && kind != null && weight > 0 && !Double.isNaN(at);
        if (!good) {
            throw FedRapException.malformed("an interaction that is none");
        }
        return new Interaction(item, kind, weight, at, true);
    }

    /** Nothing happened later than {@code latest}. */
    Interaction notAfter(double latest) {
        boolean early = !Double.isNaN(at) && at <= latest;
        return early ? this : new Interaction(item, kind, weight, latest, true);
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof Interaction)) {
            return false;
        }
        Interaction one = (Interaction) other;
        return item.equals(one.item) && kind.equals(one.kind) && weight == one.weight && at == one.at;
    }

    @Override
    public int hashCode() {
        return 31 * item.hashCode() + Double.valueOf(at).hashCode();
    }

    @Override
    public String toString() {
        return "Interaction(...)"; // what a user did belongs in no log
    }
}
