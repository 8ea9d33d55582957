package io.fedrap.core;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** What a list is asked for: {@code new Wish(10).exclude(basket).diversity(0.2).explain(true)}. */
public final class Wish {
    final int n;
    Collection<String> candidates; // null: all
    Collection<String> exclude = Collections.emptyList();
    boolean filterSeen = true;
    Predicate<String> filter; // null: all pass
    final Map<String, Collection<String>> where = new LinkedHashMap<>(); // attributes and their values
    double diversity;
    Map<String, Double> boost = Collections.emptyMap();
    boolean explain;

    /** The n best items that are new to the user. */
    public Wish(int n) {
        this.n = n;
    }

    /** Only these items; null for all. Ids that the catalogue does not have are ignored. */
    public Wish candidates(@Nullable Collection<String> only) {
        this.candidates = only == null ? null : new ArrayList<>(Arguments.items("candidates", only));
        return this;
    }

    /** None of these. */
    public Wish exclude(Collection<String> items) {
        this.exclude = new ArrayList<>(Arguments.items("exclude", items));
        return this;
    }

    /** Leave out what the user knows; true unless said. */
    public Wish filterSeen(boolean filter) {
        this.filterSeen = filter;
        return this;
    }

    /** Asked with the id of the best items, in their order, until n may stay; null for none. */
    public Wish filter(@Nullable Predicate<String> test) {
        this.filter = test;
        return this;
    }

    /**
     * Only items of which the public attribute has one of these values, as in {@code where("category",
     * "books")}; several attributes must all be so. An item without it has the value "".
     */
    public Wish where(String attribute, String... values) {
        Arguments.present("filter", attribute, Arguments.TEST);
        Arguments.present("filter", values, Arguments.TEST);
        for (String one : values) {
            Arguments.present("filter", one, Arguments.TEST);
        }
        this.where.put(attribute, Arrays.asList(values.clone()));
        return this;
    }

    /** 0 ranks by score alone; towards 1 each item is to be less like those above it. */
    public Wish diversity(double share) {
        this.diversity = Arguments.number("diversity", share, 0, 1, Arguments.SHARE);
        return this;
    }

    /** What the moment adds to the scores of some items: season, place, stock. */
    public Wish boost(Map<String, Double> added) {
        this.boost = new LinkedHashMap<>(Arguments.numbersOf("boost", added));
        return this;
    }

    /** Say why, item by item of the history. */
    public Wish explain(boolean why) {
        this.explain = why;
        return this;
    }

    @Override
    public String toString() {
        return "Wish(" + n + ")"; // what is left out belongs in no log
    }
}
