package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.security.KeyPair;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.DoubleSupplier;

/**
 * What one device knows, in memory and in its store: the one owner of both.
 *
 * <p>Every method takes the same lock, so that an app may call from any thread; what is written is
 * durable before it is known.
 */
final class DeviceState {
    private static final String OUTBOX = "outbox/";
    private static final String ANSWER = "answer/"; // to a question, still to be sent
    private static final String GAINS = "gains"; // what a Measure keeps
    private static final String SINCE = "since";
    private static final String STAGED = "staged"; // a release, as it came
    private static final String ENROLLING = "enrolling";
    private static final String HIDDEN = "hidden";
    private static final String HEALED = "healed";
    private static final int MOST_HIDDEN = 10_000;

    private final SealedStore store;
    private final DoubleSupplier clock; // seconds of wall time
    private final Retention retention;
    private final Kinds kinds;
    private final Withdrawal withdrawal;
    private final Recorded history = new Recorded();
    private List<Consent> consents;
    private Set<String> hidden; // replaced, never changed
    private boolean ledgerLost;
    private double healedAt; // when a membership was given up; NaN: never
    private byte[] remembered = new byte[0]; // the authority of that membership
    private List<String> setAside;
    private Credentials credentials;
    private KeyPair enrolling; // null once enrolled
    private List<Ledger.Entry> entries;
    private Map<String, Double> personal;
    private long since; // number of the newest interaction when the release in use was adopted
    private long nonce;
    private long dropped; // rounds whose numbers ran away
    private double toldAt; // when the coordinator said to wait
    private double toldToWait; // seconds
    private String refused = ""; // what was refused until somebody does something; empty: nothing
    private byte[] refusedOf = new byte[0]; // which server and token that was
    private ItemList catalogue = ItemList.EMPTY;
    private LocalModel model;
    private LocalModel staged; // a release beside the full one, for as long as that is held; null: none
    private ItemAttributes attributes = ItemAttributes.NONE;
    private boolean closed;

    DeviceState(
            SealedStore store,
            DoubleSupplier clock,
            Retention retention,
            Kinds kinds,
            Withdrawal withdrawal) {
        this.withdrawal = withdrawal;
        this.kinds = kinds;
        this.store = store;
        this.clock = clock;
        this.retention = retention;
        load();
        if (!consented() && !outbox().isEmpty()) { // version 0.1 left it at a withdrawal
            store.commit(emptyOutbox(), true);
        }
        expire();
    }

    private long number(String name, long absent) {
        return SetAside.read(
                store,
                name,
                raw -> {
                    List<?> found = StateCodec.list(raw);
                    return found.isEmpty() ? absent : (Long) found.get(0);
                });
    }

    /** What cannot be read is set aside, and is none. */
    private void load() {
        history.load(store);
        consents = SetAside.read(store, "consents", StateCodec::consents);
        credentials = SetAside.read(store, "credentials", Credentials::decode);
        enrolling =
                SetAside.read(
                        store,
                        ENROLLING,
                        raw -> {
                            List<?> asking = StateCodec.list(raw);
                            return asking.isEmpty()
                                    ? null
                                    : new KeyPair(
                                            P256.publicKey((byte[]) asking.get(1)),
                                            P256.privateKey((byte[]) asking.get(0)));
                        });
        entries = SetAside.read(store, "ledger", StateCodec::ledger);
        ledgerLost = store.get(SetAside.LEDGER_LOST) != null;
        personal = SetAside.read(store, "personal", StateCodec::personal);
        since = number(SINCE, -1);
        history.startAfter(since);
        nonce = number("nonce", 0);
        dropped = number("dropped", 0);
        List<?> told = SetAside.read(store, "told", DeviceState::told);
        toldAt = (Double) told.get(0);
        toldToWait = (Double) told.get(1);
        refused = (String) told.get(2);
        refusedOf = (byte[]) told.get(3);
        hidden = SetAside.read(store, HIDDEN, StateCodec::texts);
        List<?> healed = SetAside.read(store, HEALED, StateCodec::list);
        healedAt = healed.isEmpty() ? Double.NaN : (Double) healed.get(0);
        remembered = healed.isEmpty() ? new byte[0] : (byte[]) healed.get(1);
        try {
            loadRelease();
        } catch (RuntimeException error) { // the next sync fetches it anew
            catalogue = ItemList.EMPTY;
            model = null;
            SetAside.value(store, ReleaseHeader.HEAD, error);
            SetAside.value(store, "catalogue", error);
        }
        staged = SetAside.read(store, STAGED, raw -> raw == null || model == null ? null : following(raw, model));
        attributes = ItemAttributes.loadOrNone(store);
        setAside = SetAside.all(store);
    }

    /** When, how long, what and to whom; version 0.1 kept the first two. */
    private static List<?> told(byte[] raw) {
        List<?> found = StateCodec.list(raw);
        double at = found.isEmpty() ? 0 : (Double) found.get(0);
        double seconds = found.isEmpty() ? 0 : (Double) found.get(1);
        String word = found.size() < 4 ? "" : (String) found.get(2);
        byte[] of = found.size() < 4 ? new byte[0] : (byte[]) found.get(3);
        return java.util.Arrays.<Object>asList(at, seconds, word, of);
    }

    private void loadRelease() {
        byte[] head = store.get("catalogue");
        if (head != null) {
            Fields f = Fields.ofValue(head, Integer.MAX_VALUE);
            byte[] items = store.get("ids");
            catalogue = new ItemList(f.count("version"), f.count("count"), items, f.bytes("retired"));
        }
        byte[] header = store.get(ReleaseHeader.HEAD);
        if (header != null) {
            ReleaseHeader release = new ReleaseHeader(header);
            if (release.size > catalogue.count) {
                throw FedRapException.damaged("C has more rows than the catalogue items");
            }
            model = new LocalModel(release, release.load(store), catalogue, null, kinds);
        }
    }

    double now() {
        return clock.getAsDouble();
    }

    /** Does nothing but throw what every other call would, such as STORE_CLOSED. */
    synchronized void checkUsable() {
        if (closed) {
            throw new FedRapException(
                    Kind.STORE_CLOSED, "this device was closed or erased; open it again");
        }
    }

    synchronized boolean isOpen() {
        return !closed;
    }

    synchronized void close() {
        closed = true;
        store.close();
    }

    /** Delete the store; the names of what there was. */
    synchronized List<String> erase() {
        closed = true;
        return store.destroy();
    }

    /** Durable first, all or none, then known. */
    synchronized void record(List<Interaction> fresh) {
        checkUsable();
        if (!fresh.isEmpty()) {
            history.add(store, fresh, now());
            expire();
        }
    }

    /** Forget what the retention does not allow any more, and the parts of D that go with it. */
    synchronized void expire() {
        checkUsable();
        if (history.isDue(retention, now())) {
            List<Integer> kept = history.allowed(retention, now());
            long last = Math.max(since, history.newest(null)); // no number is ever given twice
            Map<String, byte[]> more = new LinkedHashMap<>();
            if (history.newest(kept) < last) {
                more.put(SINCE, StateCodec.list(last));
            }
            personal = history.keepOnly(store, kept, personal, more);
            since = more.isEmpty() ? since : last;
        }
    }

    /**
     * Forget one interaction, or all with an item where it is null; how many there were. Nothing that was
     * made of them is sent any more, either.
     */
    synchronized int remove(String item, Interaction one) {
        checkUsable();
        List<Integer> kept = history.without(item, one);
        int gone = history.size() - kept.size();
        if (gone > 0) {
            long newest = history.newest(kept);
            personal = history.keepOnly(store, kept, personal, withoutGains(emptyOutbox(), newest));
            since = newest;
        }
        return gone;
    }

    /** Forget all interactions and what was hidden; how many interactions there were. */
    synchronized int clearHistory() {
        checkUsable();
        int gone = history.size();
        Map<String, byte[]> more = emptyOutbox();
        more.put(HIDDEN, null);
        more.putAll(SetAside.gone(store));
        List<Integer> none = Collections.emptyList();
        personal = history.keepOnly(store, none, personal, withoutGains(more, -1));
        since = -1;
        hidden = Collections.emptySet();
        setAside = SetAside.all(store);
        return gone;
    }

    /** Sums cannot be taken apart: those that know of what goes go too, and nothing old counts anew. */
    private static Map<String, byte[]> withoutGains(Map<String, byte[]> values, long newest) {
        values.put(GAINS, null);
        values.put(SINCE, StateCodec.list(newest));
        return values;
    }

    /** Add what another device of the same person had; how many interactions were new. */
    synchronized int takeOver(Moving moved) {
        checkUsable();
        Set<Interaction> here = new LinkedHashSet<>(history.all());
        Set<Interaction> fresh = new LinkedHashSet<>(moved.interactions);
        fresh.removeAll(here);
        List<Ledger.Entry> all = new ArrayList<>(entries);
        for (Ledger.Entry one : moved.entries) {
            boolean known = false;
            for (Ledger.Entry other : entries) {
                known |= one.step == other.step && java.util.Arrays.equals(one.round, other.round);
            }
            if (!known) {
                all.add(one);
            }
        }
        if (all.size() > entries.size()) { // first: a crash in between leaves too much charged, not too little
            put("ledger", StateCodec.ledger(all), true);
            entries = all;
        }
        hide(moved.hidden);
        record(new ArrayList<>(fresh));
        return fresh.size();
    }

    /** Items that are never recommended; never changed. */
    synchronized Set<String> hidden() {
        checkUsable();
        return hidden;
    }

    synchronized void hide(Collection<String> items) {
        checkUsable();
        Set<String> all = new LinkedHashSet<>(hidden);
        all.addAll(items);
        if (all.size() > MOST_HIDDEN) {
            throw Arguments.wrong("item", "at most " + MOST_HIDDEN + " items can be hidden");
        }
        keepHidden(all);
    }

    /** False when it was not hidden. */
    synchronized boolean unhide(String item) {
        checkUsable();
        Set<String> left = new LinkedHashSet<>(hidden);
        boolean was = left.remove(item);
        keepHidden(left);
        return was;
    }

    private void keepHidden(Set<String> all) {
        if (!all.equals(hidden)) {
            put(HIDDEN, MsgPack.encode(new ArrayList<Object>(all)), true);
            hidden = Collections.unmodifiableSet(all);
        }
    }

    /** What could not be read, each with a word for why. */
    synchronized List<String> setAside() {
        checkUsable();
        return setAside;
    }

    /** A part of the ledger could not be read: what was spent is not known. */
    synchronized boolean isLedgerLost() {
        checkUsable();
        return ledgerLost;
    }

    /** When a membership was given up that the coordinator did not know; NaN: never. */
    synchronized double healedAt() {
        checkUsable();
        return healedAt;
    }

    /** The authority of that membership, which the next one must have too; null where there was none. */
    synchronized byte[] remembered() {
        checkUsable();
        return remembered.length == 0 ? null : remembered;
    }

    /** The coordinator does not know this device: its updates go, history and ledger stay. */
    synchronized void forgetCredentials() {
        checkUsable();
        double at = now();
        byte[] authority = credentials == null ? remembered : credentials.authority;
        Map<String, byte[]> values = emptyOutbox();
        values.put("credentials", null);
        values.put(ENROLLING, null);
        values.put(HEALED, StateCodec.list(at, authority));
        store.commit(values, true);
        credentials = null;
        enrolling = null;
        healedAt = at;
        remembered = authority;
    }

    /** Everything recorded, oldest first; never changed. */
    synchronized List<Interaction> interactions() {
        checkUsable();
        return history.all();
    }

    synchronized int recorded() {
        checkUsable();
        return history.size();
    }

    /** What rounds see: those that speak for items that the release has a row for, newest first. */
    synchronized History history() {
        checkUsable();
        return model == null
                ? new History(new int[0], new double[0])
                : model.history(interactions()).liked();
    }

    synchronized boolean consented() {
        checkUsable();
        hearWithdrawal();
        return !consents.isEmpty() && consents.get(consents.size() - 1).train;
    }

    /** Has the user agreed that this device answers questions, and not taken it back? */
    synchronized boolean mayMeasure() {
        return consented() && consents.get(consents.size() - 1).measure;
    }

    /** May releases be fetched? Null when the user was never asked. */
    synchronized Boolean fetching() {
        checkUsable();
        hearWithdrawal();
        return consents.isEmpty() ? null : (Boolean) consents.get(consents.size() - 1).recommend;
    }

    /** When the user was last asked; 0 when never. */
    synchronized double consentedAt() {
        return consents.isEmpty() ? 0 : consents.get(consents.size() - 1).at;
    }

    /** Everything the user ever answered, oldest first. */
    synchronized List<Consent> consents() {
        checkUsable();
        return new ArrayList<>(consents);
    }

    /** Another process took the consent back: it holds from now on, also if the disk is full. */
    private void hearWithdrawal() {
        if (withdrawal.isThere()) {
            List<Consent> all = new ArrayList<>(consents);
            all.add(new Consent(false, false, false, "taken back by another process", now()));
            consents = all;
            Map<String, byte[]> values = emptyOutbox();
            values.put("consents", StateCodec.consents(all));
            store.commit(values, true);
            withdrawal.clear();
        }
    }

    /** Add to what the user answered; a withdrawal empties the outbox in the same transaction. */
    synchronized void keepConsent(boolean recommend, boolean train, boolean measure, String policy) {
        checkUsable();
        List<Consent> all = new ArrayList<>(consents);
        all.add(new Consent(recommend, train, measure, policy, now()));
        Map<String, byte[]> values = train ? new LinkedHashMap<>() : emptyOutbox();
        for (String left : answers()) {
            if (!measure) {
                values.put(ANSWER + left, null);
            }
        }
        values.put("consents", StateCodec.consents(all));
        store.commit(values, true);
        consents = all;
        withdrawal.clear(); // this answer is newer
        if (train && !refused.isEmpty()) { // who agreed anew may ask anew
            keepWait(0, "", refusedOf);
        }
    }

    /** The user took the consent back, or never gave it; false once this device is closed. */
    synchronized boolean isWithdrawn() {
        return !closed && !consented();
    }

    private Map<String, byte[]> emptyOutbox() {
        Map<String, byte[]> values = new LinkedHashMap<>();
        for (String begin : new String[] {OUTBOX, ANSWER}) {
            for (String name : store.names(begin)) {
                values.put(name, null);
            }
        }
        return values;
    }

    /** Who this device is, once enrolled; else null. */
    synchronized Credentials credentials() {
        checkUsable();
        return credentials;
    }

    /** The key to enrol with, kept before it is used, and the same one until enrolled. */
    synchronized KeyPair enrollingKey() {
        checkUsable();
        if (enrolling == null) {
            KeyPair fresh = P256.generate();
            put(ENROLLING, StateCodec.list(P256.secret(fresh.getPrivate()), P256.point(fresh.getPublic())), true);
            enrolling = fresh;
        }
        return enrolling;
    }

    synchronized void keepCredentials(Credentials fresh) {
        checkUsable();
        Map<String, byte[]> values = new LinkedHashMap<>();
        values.put("credentials", fresh.encode());
        values.put(ENROLLING, null);
        store.commit(values, true);
        credentials = fresh;
        enrolling = null;
    }

    /** A number larger than every one before, also after a restart or a clock set back. */
    synchronized long nextNonce() {
        checkUsable();
        long next = Math.max(nonce + 1, (long) (now() * 1e6));
        put("nonce", StateCodec.list(next), false);
        nonce = next;
        return next;
    }

    /** How many rounds gave numbers that were not finite, and were dropped. */
    synchronized long dropped() {
        checkUsable();
        return dropped;
    }

    synchronized void countDropped() {
        checkUsable();
        put("dropped", StateCodec.list(dropped + 1), false);
        dropped++;
    }

    synchronized List<Ledger.Entry> entries() {
        checkUsable();
        return new ArrayList<>(entries);
    }

    /** D as it was kept with the last round. */
    synchronized Map<String, Double> personal() {
        checkUsable();
        return new LinkedHashMap<>(personal);
    }

    /**
     * Seconds that the coordinator asked to wait, or that this device rests after a round, as far as
     * they are not over; 0: none. What is left to be sent is sent.
     */
    synchronized double waitSeconds(byte[] of) {
        double passed = now() - toldAt; // below 0 the clock was set back: ask again
        boolean told = refusedOf.length == 0 || java.util.Arrays.equals(of, refusedOf); // this server, or token
        double wait = told && passed >= 0 ? toldToWait - passed : 0;
        double rest = outbox().isEmpty() ? Ledger.untilRested(entries, now()) : 0;
        return Math.max(0, Math.max(wait, rest));
    }

    /**
     * What was refused for good to that server and token, until it says something else; null when nothing.
     */
    synchronized String refused(byte[] of) {
        checkUsable();
        return refused.isEmpty() || !java.util.Arrays.equals(of, refusedOf) ? null : refused;
    }

    /** Remember it across restarts: a job's process ends with the job. */
    synchronized void keepWait(double seconds, String word, byte[] of) {
        checkUsable();
        double at = now();
        put("told", StateCodec.list(at, seconds, word, of), false);
        toldAt = at;
        toldToWait = seconds;
        refused = word;
        refusedOf = of;
    }

    /**
     * D, the ledger entry and the outgoing bytes in one transaction, before anything leaves.
     *
     * <p>False, and nothing is kept, when the user has taken the consent back meanwhile.
     */
    synchronized boolean commitRound(Ledger.Entry entry, byte[] body) {
        checkUsable();
        if (!consented()) {
            return false;
        }
        List<Ledger.Entry> all = new ArrayList<>(entries);
        all.add(entry);
        Map<String, Double> parts =
                model == null
                        ? Collections.<String, Double>emptyMap()
                        : model.personal(interactions());
        Map<String, byte[]> values = new LinkedHashMap<>();
        values.put("ledger", StateCodec.ledger(all));
        values.put("personal", StateCodec.personal(parts));
        values.put(OUTBOX + Bytes.hex(entry.round), body);
        store.commit(values, true);
        entries = all;
        personal = parts;
        return true;
    }

    /** Rounds whose updates still have to be sent, as hex, oldest first. */
    synchronized List<String> outbox() {
        return left(OUTBOX);
    }

    /** Questions whose answers still have to be sent, as hex, oldest first. */
    synchronized List<String> answers() {
        return left(ANSWER);
    }

    private List<String> left(String beginning) {
        checkUsable();
        List<String> rounds = new ArrayList<>();
        for (String name : store.names(beginning)) {
            rounds.add(name.substring(beginning.length()));
        }
        return rounds;
    }

    /** The bytes of an answer. */
    synchronized byte[] answerTo(String question) {
        checkUsable();
        return store.get(ANSWER + question);
    }

    /** An answer that was received, or refused for good. */
    synchronized void forgetAnswer(String question) {
        checkUsable();
        put(ANSWER + question, null, true);
    }

    /** The ledger's entry and the outgoing bytes at once; false, and nothing is kept, without consent. */
    synchronized boolean commitAnswer(Ledger.Entry entry, byte[] body) {
        if (!mayMeasure()) {
            return false;
        }
        List<Ledger.Entry> all = new ArrayList<>(entries);
        all.add(entry);
        Map<String, byte[]> values = new LinkedHashMap<>();
        values.put("ledger", StateCodec.ledger(all));
        values.put(ANSWER + Bytes.hex(entry.round), body);
        store.commit(values, true);
        entries = all;
        return true;
    }

    /** What a Measure keeps; null: nothing. */
    synchronized byte[] measured() {
        checkUsable();
        return store.get(GAINS);
    }

    synchronized void keepMeasured(byte[] raw) {
        checkUsable();
        put(GAINS, raw, false);
    }

    /** The number of each interaction in the store, oldest first. */
    synchronized long[] numbers() {
        checkUsable();
        return history.numbers();
    }

    /** The number of the newest interaction when the release in use was adopted; -1 where there was none. */
    synchronized long since() {
        checkUsable();
        return since;
    }

    /** The bytes of one of them. */
    synchronized byte[] outgoing(String round) {
        checkUsable();
        return store.get(OUTBOX + round);
    }

    /** An update that was answered for good. */
    synchronized void forgetOutgoing(String round) {
        checkUsable();
        put(OUTBOX + round, null, true);
    }

    /** The full release, which rounds are about; null before the first sync. */
    synchronized LocalModel model() {
        checkUsable();
        return model;
    }

    /** The staged release that is held beside the full one; null: none. */
    synchronized LocalModel staged() {
        checkUsable();
        return staged;
    }

    /** What is recommended from: a staged release only while the user lets it be measured. */
    synchronized LocalModel inUse() {
        checkUsable();
        return staged != null && mayMeasure() ? staged : model;
    }

    /**
     * Use a staged release, whose signature was checked, beside the full one, if that is still held.
     *
     * @throws FedRapException BROKEN_MODEL or FORKED_LOG: damaged, of other items, or of another full one.
     */
    void adoptStaged(byte[] raw, LocalModel full) {
        LocalModel fresh = following(raw, full);
        synchronized (this) {
            checkUsable();
            if (model == full) {
                commitRelease(new LinkedHashMap<>(), raw);
                staged = fresh;
            }
        }
    }

    private LocalModel following(byte[] raw, LocalModel full) {
        ReleaseMessage message = ReleaseMessage.decode(raw, raw.length);
        Authority.checkLeads(full.header.entry, Collections.singletonList(message.entry));
        return beside(message, full);
    }

    /** A release of the same items as the one in use; throws BROKEN_MODEL. */
    LocalModel beside(ReleaseMessage message, LocalModel full) {
        if (message.size != full.common.size()) {
            throw FedRapException.broken("a staged release of other items than the full one");
        }
        return new LocalModel(
                new ReleaseHeader(message), SharedMatrix.of(message), catalogue(), full.ids, kinds);
    }

    /** What was recorded by now, and not looked at, counts under no later release. */
    private void commitRelease(Map<String, byte[]> values, byte[] besideIt) {
        long newest = Math.max(since, history.newest(null));
        values.put(SINCE, StateCodec.list(newest));
        values.put(STAGED, besideIt);
        store.commit(values, true);
        since = newest;
    }

    synchronized ItemList catalogue() {
        checkUsable();
        return catalogue;
    }

    /**
     * Use a new release and catalogue from now on, in place of {@code old}; both are swapped in one
     * transaction. Nothing where another sync was faster.
     *
     * @throws FedRapException BROKEN_MODEL: damaged or hostile; the old one stays in use.
     */
    void adopt(ReleaseMessage message, ItemList items, LocalModel old) {
        if (message.isDelta() && old == null) {
            throw new FedRapException(
                    Kind.BROKEN_MODEL, "a delta, but this device holds no release");
        }
        if (message.size > items.count) { // before anything is made of the size that it states
            throw FedRapException.broken(
                    message.size + " rows, but the catalogue has " + items.count + " items");
        }
        SharedMatrix common =
                message.isDelta() ? old.common.apply(message) : SharedMatrix.of(message);
        boolean same = old != null && items == catalogue();
        LocalModel fresh;
        try {
            fresh = new LocalModel(new ReleaseHeader(message), common, items, same ? old.ids : null, kinds);
        } catch (FedRapException error) {
            if (error.kind() != Kind.MALFORMED_MESSAGE) {
                throw error;
            }
            throw new FedRapException(
                    Kind.BROKEN_MODEL, "a catalogue that is not a list of ids", error);
        }
        Map<String, byte[]> values = ReleaseHeader.values(message, common);
        if (!same) {
            Map<String, Object> head = new LinkedHashMap<>();
            head.put("version", items.version);
            head.put("count", items.count);
            head.put("retired", items.retired);
            values.put("catalogue", MsgPack.encode(head));
            values.put("ids", items.items);
        }
        synchronized (this) {
            checkUsable();
            if (model != old) {
                return; // these are changes to a C that is not there any more
            }
            commitRelease(values, null); // a staged one was promoted or taken back
            model = fresh;
            catalogue = items;
            staged = null;
        }
    }

    /** The public attributes of the items that are held. */
    synchronized ItemAttributes attributes() {
        checkUsable();
        return attributes;
    }

    /** Use these public attributes from now on. */
    synchronized void adoptAttributes(ItemAttributes fresh) {
        checkUsable();
        store.commit(fresh.values(attributes), true);
        attributes = fresh;
    }

    private void put(String name, byte[] value, boolean durable) {
        store.commit(Collections.singletonMap(name, value), durable);
    }
}
