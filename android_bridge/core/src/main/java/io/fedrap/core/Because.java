package io.fedrap.core;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** What speaks for an item, for the user's eyes. */
public final class Because {
    /** Of the user's own history, strongest first; only what speaks for the item. */
    public final List<Reason> reasons;

    /** Part of the score that the item has because many touched it lately. */
    public final double trend;

    private final Map<String, String> titles; // of items that have a public title

    Because(List<Reason> reasons, Map<String, String> titles, double trend) {
        this.trend = trend;
        this.reasons = Collections.unmodifiableList(reasons);
        this.titles = titles;
    }

    /**
     * Such as "because you liked A and B"; "popular lately" where what others touched says more than the
     * own history; empty where nothing speaks for it.
     */
    public String words() {
        return words(Collections.<String, String>emptyMap(), 2);
    }

    /**
     * The same with names.
     *
     * @param names names of items, before their public titles; an id that has neither stays one
     * @param most how many items are named
     */
    public String words(Map<String, String> names, int most) {
        List<String> named = new ArrayList<>();
        for (int i = 0; i < reasons.size() && i < most; i++) {
            String item = reasons.get(i).item;
            String title = titles.containsKey(item) ? titles.get(item) : item;
            named.add(names.containsKey(item) ? names.get(item) : title);
        }
        double left = trend;
        for (Reason one : reasons) {
            left -= one.shared + one.personal + one.sequence;
        }
        if (trend > 0 && left > 0) {
            return "popular lately";
        }
        if (named.isEmpty()) {
            return "";
        }
        String last = named.remove(named.size() - 1);
        String first = String.join(", ", named);
        return "because you liked " + (named.isEmpty() ? last : first + " and " + last);
    }

    @Override
    public String toString() {
        return "Because(" + reasons.size() + " reasons)"; // what a user did belongs in no log
    }
}
