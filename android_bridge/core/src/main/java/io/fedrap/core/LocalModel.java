package io.fedrap.core;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/**
 * What this device holds of the shared world: a release of C and the catalogue. A sync makes a new one.
 *
 * <p>Recommending happens here, offline. How the user sees the items (u and D) is worked out when it
 * is first needed, and kept until the history changes.
 */
final class LocalModel {
    private static final int ASKED = 4; // times n, items whose test is asked before more are ranked
    private static final int DIVERSE = 5; // times n, items that a diverse list is chosen from

    final ReleaseHeader header;
    final SharedMatrix common;
    final ItemIds ids;
    final boolean[] shown; // not to be changed
    final Kinds kinds;
    private final boolean[] retired;
    private double[] gram; // (k·k) C'C without what is retired, made when first needed
    private List<Interaction> known; // the history that was looked up last
    private History history;
    private UserRepresentation representation;
    private SequenceUser part; // null without a sequence part
    private boolean partIsOld; // it is of the history before

    /**
     * One release with one catalogue.
     *
     * @throws FedRapException MALFORMED_MESSAGE: the catalogue is not a list of ids; BROKEN_MODEL.
     */
    LocalModel(
            ReleaseHeader header, SharedMatrix common, ItemList catalogue, ItemIds ids, Kinds kinds) {
        this.header = header;
        this.kinds = kinds;
        this.common = common;
        this.ids = ids == null ? new ItemIds(catalogue.items) : ids;
        this.shown = SharedMatrix.servedRows(header.withheld, common.size());
        if (!fits(header.scoring)) {
            throw FedRapException.broken("a release that is scored with time kernels it does not have");
        }
        for (int row = this.ids.size(); row < shown.length; row++) {
            shown[row] = false;
        }
        this.retired = new boolean[shown.length];
        for (int row : Bytes.integers(catalogue.retired)) {
            if (row >= 0 && row < shown.length) {
                shown[row] = false;
                retired[row] = true;
            }
        }
    }

    /** Does this release have the time kernels of such a scoring? */
    boolean fits(Scoring scoring) {
        SequenceScoring mix = scoring.sequence;
        return mix == null
                || common.sequence != null && common.sequence.kernelCount() == mix.kernels.count();
    }

    /** Has anybody taught C anything yet, by a method that this library knows? */
    boolean isTaught() {
        return header.step > 0 && header.scoring.isSolve();
    }

    /**
     * C'C of what can be chosen. Of a retired item it does not say that a user passed over it; what
     * those who chose it are like, its row still says.
     */
    synchronized double[] gram() {
        if (gram == null) {
            gram = common.gram(retired);
        }
        return gram;
    }

    /**
     * The interactions with items that C has a row for, newest first. The newest word on an item
     * counts: a dislike ends what was said for it before.
     */
    synchronized History history(List<Interaction> interactions) {
        if (interactions != known) { // lists are replaced, never changed
            history = looked(interactions);
            known = interactions;
            representation = null;
            partIsOld = true;
        }
        return history;
    }

    /** The same for any list, which is not remembered. */
    History looked(List<Interaction> interactions) {
        int[] rows = new int[interactions.size()];
        double[] weights = new double[rows.length];
        double[] times = new double[rows.length];
        int count = 0;
        for (int i = interactions.size() - 1; i >= 0; i--) {
            int row = row(interactions.get(i).item);
            Double counts = kinds.weight(interactions.get(i).kind);
            if (row >= 0 && counts != null) {
                rows[count] = row;
                times[count] = interactions.get(i).at;
                weights[count++] = counts * interactions.get(i).weight;
            }
        }
        History found =
                new History(
                        Arrays.copyOf(rows, count), Arrays.copyOf(weights, count),
                        Arrays.copyOf(times, count));
        return found.settled();
    }

    private synchronized UserRepresentation representation(List<Interaction> interactions) {
        History now = history(interactions);
        if (representation == null) {
            representation = new UserRepresentation(common, gram(), now, header.scoring);
        }
        return representation;
    }

    /** The same user of the sequence part; null without one. */
    private synchronized SequenceUser part(List<Interaction> interactions) {
        History now = history(interactions);
        if (partIsOld && header.scoring.sequence != null) {
            part = new SequenceUser(common.sequence, now, header.scoring.sequence, part);
        }
        partIsOld = false;
        return part;
    }

    /** D as it is kept and shown: <u, D_j> of each item that owns a row. */
    Map<String, Double> personal(List<Interaction> interactions) {
        if (!header.scoring.isSolve()) {
            return Collections.emptyMap();
        }
        UserRepresentation mine = representation(interactions);
        Map<String, Double> parts = new LinkedHashMap<>();
        for (int i = 0; i < mine.offsets.length; i++) {
            if (mine.items[i] < ids.size()) {
                parts.put(ids.name(mine.items[i]), mine.offsets[i]);
            }
        }
        return parts;
    }

    /**
     * The n best items. While C has learnt nothing, the first of the catalogue: operators list their
     * items with the most popular first.
     */
    List<Recommendation> recommend(
            List<Interaction> interactions,
            Collection<String> hidden,
            ItemAttributes attributes,
            Wish wish) {
        boolean[] allowed = allowed(interactions, hidden, wish);
        attributes.forbid(allowed, wish.where);
        if (!isTaught()) {
            return first(wish.n, allowed, wish.filter);
        }
        UserRepresentation mine = representation(interactions);
        SequenceUser other = part(interactions);
        int wanted = (int) Math.min(wish.diversity == 0 ? wish.n : (long) DIVERSE * wish.n, common.size());
        Ranking ranked = best(mine, other, wanted, allowed, wish);
        if (wish.diversity > 0) {
            ranked = ranked.diversified(common, wish.n, wish.diversity);
        }
        List<Recommendation> found = new ArrayList<>();
        for (int i = 0; i < ranked.rows.length; i++) {
            int row = ranked.rows[i];
            List<Reason> why =
                    wish.explain ? reasons(mine, other, row) : Collections.<Reason>emptyList();
            found.add(
                    new Recommendation(
                            ids.name(row), ranked.shared[i], ranked.personal[i], ranked.sequence[i],
                            ranked.popularity[i], ranked.trend[i], ranked.added[i], why));
        }
        return found;
    }

    /** The first n items of the catalogue that may be shown and are not hidden. */
    List<String> popular(int n, Collection<String> hidden) {
        List<String> names = new ArrayList<>();
        boolean[] allowed = shown.clone();
        forbid(allowed, hidden);
        for (Recommendation one : first(n, allowed, null)) {
            names.add(one.item);
        }
        return names;
    }

    /** The n items touched most of late, best first; none where the release does not say. */
    List<String> trending(int n, Collection<String> hidden) {
        List<String> names = new ArrayList<>();
        if (common.trend != null) {
            boolean[] allowed = shown.clone();
            forbid(allowed, hidden);
            for (int row : common.trend.best(n, allowed)) {
                names.add(ids.name(row));
            }
        }
        return names;
    }

    /** What an item's score has because it was touched lately. */
    double trend(String item) {
        int row = row(item);
        return row < 0 || common.trend == null ? 0.0 : header.scoring.trend * common.trend.of(row);
    }

    /** How each item of the history moves the score of one, strongest first. */
    List<Reason> reasons(List<Interaction> interactions, String item) {
        int row = row(item);
        return row < 0 || !isTaught()
                ? Collections.<Reason>emptyList()
                : reasons(representation(interactions), part(interactions), row);
    }

    private List<Recommendation> first(int n, boolean[] allowed, Predicate<String> test) {
        List<Recommendation> found = new ArrayList<>();
        for (int row = 0; row < allowed.length && found.size() < n; row++) {
            if (allowed[row] && (test == null || test.test(ids.name(row)))) {
                found.add(
                        new Recommendation(
                                ids.name(row), 0, 0, 0, 0, 0, 0, Collections.<Reason>emptyList()));
            }
        }
        return found;
    }

    /** The n best that pass the test; it is asked of more and more of them until there are enough. */
    private Ranking best(
            UserRepresentation mine, SequenceUser other, int n, boolean[] allowed, Wish wish) {
        if (wish.filter == null) {
            return Ranking.of(common, mine, other, n, allowed, added(wish, allowed));
        }
        Map<Integer, Double> added = added(wish, allowed);
        int[] passed = new int[Math.min(n, allowed.length)];
        int count = 0;
        int asked = 0;
        int most = (int) Math.min((long) ASKED * n, allowed.length);
        while (true) {
            Ranking found = Ranking.of(common, mine, other, most, allowed, added);
            int size = found.rows.length;
            for (; asked < size; asked++) {
                if (count < n && wish.filter.test(ids.name(found.rows[asked]))) {
                    passed[count++] = asked;
                }
            }
            if (count >= n || size < most || most == allowed.length) {
                return found.take(Arrays.copyOf(passed, count));
            }
            most = (int) Math.min((long) ASKED * most, allowed.length);
        }
    }

    private Map<Integer, Double> added(Wish wish, boolean[] allowed) {
        Map<Integer, Double> added = new LinkedHashMap<>();
        for (Map.Entry<String, Double> one : wish.boost.entrySet()) {
            int row = row(one.getKey());
            if (row >= 0 && allowed[row]) {
                added.put(row, one.getValue());
            }
        }
        return added;
    }

    private boolean[] allowed(
            List<Interaction> interactions, Collection<String> hidden, Wish wish) {
        boolean[] allowed = shown.clone();
        if (wish.candidates != null) {
            Arrays.fill(allowed, false);
            for (String name : wish.candidates) {
                int row = row(name);
                if (row >= 0) {
                    allowed[row] = shown[row];
                }
            }
        }
        if (wish.filterSeen) {
            for (int row : history(interactions).rows) {
                allowed[row] = false;
            }
        }
        forbid(allowed, wish.exclude);
        forbid(allowed, hidden);
        return allowed;
    }

    private void forbid(boolean[] allowed, Collection<String> items) {
        for (String item : items) {
            int row = row(item);
            if (row >= 0) {
                allowed[row] = false;
            }
        }
    }

    private List<Reason> reasons(UserRepresentation mine, SequenceUser other, int row) {
        Ranking parts = Ranking.explain(common, mine, other, row);
        TopN strongest = new TopN(parts.rows.length);
        for (int i = 0; i < parts.rows.length; i++) {
            strongest.offer(i, Math.abs(parts.shared[i] + parts.personal[i] + parts.sequence[i]));
        }
        List<Reason> why = new ArrayList<>();
        for (int i : strongest.rows()) {
            String name = ids.name(parts.rows[i]);
            why.add(new Reason(name, parts.shared[i], parts.personal[i], parts.sequence[i]));
        }
        return why;
    }

    /** The n items most like this one in the shared view; none for an unknown item. */
    List<Similar> similar(String item, int n) {
        int row = row(item);
        if (row < 0 || !isTaught()) {
            return Collections.emptyList();
        }
        Ranking ranked = Ranking.similar(common, row, n, shown);
        List<Similar> found = new ArrayList<>();
        for (int i = 0; i < ranked.rows.length; i++) {
            found.add(new Similar(ids.name(ranked.rows[i]), ranked.shared[i]));
        }
        return found;
    }

    /** The row of an item that C has numbers for; -1 for any other. */
    int row(String item) {
        int row = ids.row(item);
        return row < common.size() ? row : -1;
    }
}
