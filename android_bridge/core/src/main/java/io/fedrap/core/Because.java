package io.fedrap.core;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** What speaks for an item, for the user's eyes. */
public final class Because {
    /** Of the user's own history, strongest first; only what speaks for the item. */
    public final List<Reason> reasons;

    Because(List<Reason> reasons) {
        this.reasons = Collections.unmodifiableList(reasons);
    }

    /** Such as "because you liked A and B"; empty where nothing speaks for it. */
    public String words() {
        return words(Collections.<String, String>emptyMap(), 2);
    }

    /**
     * The same with names.
     *
     * @param titles names of items; an id that is not there stays one
     * @param most how many items are named
     */
    public String words(Map<String, String> titles, int most) {
        List<String> named = new ArrayList<>();
        for (int i = 0; i < reasons.size() && i < most; i++) {
            String item = reasons.get(i).item;
            named.add(titles.containsKey(item) ? titles.get(item) : item);
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
