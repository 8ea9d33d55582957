package io.fedrap.core;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The history of a device, by time, and under which names the store has it.
 *
 * <p>Not safe for threads: {@link DeviceState} is its only user, and locks.
 */
final class Recorded {
    private static final String EVENT = "event/";

    private List<Interaction> interactions = new ArrayList<>(); // by time
    private List<String> names = new ArrayList<>(); // in the store
    private List<Interaction> view; // a copy for others, which never changes; null: not made yet
    private long next = 1; // number of the next one

    /** Everything in a store. */
    void load(SealedStore store) {
        for (String name : store.names(EVENT)) {
            next = Math.max(next, Long.parseLong(name.substring(EVENT.length())) + 1);
            try {
                interactions.add(StateCodec.interaction(store.get(name)));
                names.add(name);
            } catch (RuntimeException error) {
                SetAside.value(store, name, error);
            }
        }
        putInOrder(1);
    }

    /** The next one has a larger number than this. */
    void startAfter(long number) {
        next = Math.max(next, number + 1);
    }

    int size() {
        return interactions.size();
    }

    /** Oldest first; the same list as long as nothing changes. */
    List<Interaction> all() {
        if (view == null) {
            view = Collections.unmodifiableList(new ArrayList<>(interactions));
        }
        return view;
    }

    /** Durable first, all or none, then known. What is older than the newest goes in between. */
    void add(SealedStore store, List<Interaction> fresh, double now) {
        // Nothing happened later than now, or than the newest where the clock was set back since.
        double latest = size() == 0 ? now : Math.max(now, interactions.get(size() - 1).at);
        Map<String, byte[]> values = new LinkedHashMap<>();
        List<Interaction> kept = new ArrayList<>();
        for (Interaction one : fresh) {
            Interaction happened = one.notAfter(latest);
            values.put(EVENT + (next + kept.size()), StateCodec.encode(happened));
            kept.add(happened);
        }
        store.commit(values, false);
        next += kept.size();
        int first = size();
        interactions.addAll(kept);
        names.addAll(values.keySet());
        putInOrder(Math.max(1, first));
    }

    /** By time, not by when they were recorded; those of one time as they came. */
    private void putInOrder(int from) {
        view = null;
        boolean ordered = true;
        for (int i = from; i < size() && ordered; i++) {
            ordered = interactions.get(i - 1).at <= interactions.get(i).at;
        }
        if (!ordered) {
            TopN oldest = new TopN(size());
            for (int i = 0; i < size(); i++) {
                oldest.offer(i, -interactions.get(i).at);
            }
            List<Integer> order = new ArrayList<>();
            for (int place : oldest.rows()) {
                order.add(place);
            }
            keep(order);
        }
    }

    private void keep(List<Integer> places) {
        List<Interaction> left = new ArrayList<>();
        List<String> leftNames = new ArrayList<>();
        for (int place : places) {
            left.add(interactions.get(place));
            leftNames.add(names.get(place));
        }
        interactions = left;
        names = leftNames;
        view = null;
    }

    /** The number of each in the store, oldest first. */
    long[] numbers() {
        long[] found = new long[names.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = Long.parseLong(names.get(i).substring(EVENT.length()));
        }
        return found;
    }

    /** The largest number in the store of those at these places, null for all; -1 when there is none. */
    long newest(List<Integer> places) {
        long newest = -1;
        long[] numbers = numbers();
        for (int i = 0; i < (places == null ? numbers.length : places.size()); i++) {
            newest = Math.max(newest, numbers[places == null ? i : places.get(i)]);
        }
        return newest;
    }

    boolean isDue(Retention retention, double now) {
        return retention.due(size(), size() == 0 ? now : interactions.get(0).at, now);
    }

    /** The places of all but one interaction, or but all with an item. */
    List<Integer> without(String item, Interaction one) {
        List<Integer> places = new ArrayList<>();
        for (int place = 0; place < size(); place++) {
            Interaction here = interactions.get(place);
            if (one != null ? !here.equals(one) : !here.item.equals(item)) {
                places.add(place);
            }
        }
        return places;
    }

    List<Integer> allowed(Retention retention, double now) {
        return retention.kept(interactions, now);
    }

    /**
     * Keep only the interactions at these places, and of D the parts that they need, which are given
     * back. {@code more} is written in the same transaction.
     */
    Map<String, Double> keepOnly(
            SealedStore store,
            List<Integer> places,
            Map<String, Double> personal,
            Map<String, byte[]> more) {
        Set<String> gone = new LinkedHashSet<>(names);
        Set<String> items = new LinkedHashSet<>();
        for (int place : places) {
            gone.remove(names.get(place));
            items.add(interactions.get(place).item);
        }
        Map<String, byte[]> values = new LinkedHashMap<>(more);
        for (String name : gone) {
            values.put(name, null);
        }
        Map<String, Double> parts = new LinkedHashMap<>(personal);
        parts.keySet().retainAll(items);
        values.put("personal", StateCodec.personal(parts));
        store.forget(values);
        keep(places);
        return parts;
    }
}
