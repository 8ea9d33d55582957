package io.fedrap.core;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.NonNull;
import org.jspecify.annotations.Nullable;

/**
 * One user's recommender on one device: what an app embeds.
 *
 * <pre>
 * try (FedRap fr = FedRap.open(new Config(folder).server("https://fed.example.org").token(token))) {
 *     fr.record("sku-123");
 *     for (Recommendation one : fr.recommend(10)) { … }
 * }
 * </pre>
 *
 * <p>Opens without network and without threads. Every call may come from any thread; {@code sync},
 * {@code runRound} and {@code erase} block on the network, and {@link #stop} ends them from another
 * thread. Until the user consented, nothing ever leaves the device.
 */
public final class FedRap implements Closeable {
    static final String PROFILE = "profile-"; // what the folders of profiles begin with

    private final DeviceState state;
    private final Config config;
    private final RoundSession session;
    private final StoreReset reset;
    private final File folder;

    private FedRap(DeviceState state, Config config, StoreReset reset, File folder) {
        this.state = state;
        this.config = config;
        this.session = new RoundSession(state, config);
        this.reset = reset;
        this.folder = folder;
    }

    /**
     * The recommender of this device, made on first use.
     *
     * @throws FedRapException STORE_BUSY, STORE_LOCKED or STORE_DAMAGED: the store cannot be used;
     *     nothing was changed.
     */
    public static @NonNull FedRap open(Config config) {
        File folder = folderOf(config);
        if (!folder.isDirectory()) {
            if (!folder.mkdirs()) {
                throw FedRapException.damaged("cannot make the folder of the store");
            }
            FolderFiles.makePrivate(folder);
        }
        return new Doctor(config, folder, keys(config, folder)).open();
    }

    private static File folderOf(Config config) {
        File folder = new File(config.folder, config.app);
        if (config.profile == null) {
            return folder;
        }
        // The name neither chooses a path nor can be read from one.
        byte[] name = config.profile.getBytes(StandardCharsets.UTF_8);
        return new File(folder, PROFILE + Bytes.hex(Bytes.sha256(name)).substring(0, 32));
    }

    /**
     * Take every consent back, also while another process has this store open: it stops before its next
     * request. Neither the store's key nor its lock is needed. An answer that is given afterwards counts.
     *
     * @throws FedRapException STORE_DAMAGED: there is no store here, or nothing can be written.
     */
    public static void withdraw(Config config) {
        new Withdrawal(folderOf(config)).leave();
    }

    /**
     * Say what is wrong with a store, without changing it.
     *
     * @throws FedRapException STORE_BUSY: it is open; STORE_LOCKED: only its own key helps; STORE_DAMAGED:
     *     there is none.
     */
    public static @NonNull Diagnosis examine(Config config) {
        File folder = folderOf(config);
        return new Doctor(config, folder, keys(config, folder)).examine();
    }

    /**
     * Make a store that opens of what can still be read; the files as they were stay in the folder {@code
     * damaged} beside them. A healthy store is left alone. Where the ledger cannot be trusted any more
     * the device joins no more rounds.
     *
     * @throws FedRapException as {@link #examine}; STORE_DAMAGED also where so little is left that there is
     *     nothing to repair.
     */
    public static @NonNull Diagnosis repair(Config config) {
        File folder = folderOf(config);
        return new Doctor(config, folder, keys(config, folder)).repair();
    }

    private static KeyProvider keys(Config config, File folder) {
        if (config.key == null) {
            return new KeyFile(new File(folder, KeyFile.NAME));
        }
        return new ProfileKey(folder, config.key, config.profile != null);
    }

    static FedRap opened(SealedStore store, Config config, File folder) {
        DeviceState state =
                new DeviceState(
                        store, config.clock, config.retention, config.kinds, new Withdrawal(folder));
        return new FedRap(state, config, Doctor.reset(store), folder);
    }

    /**
     * Keep what the user agreed to: yes to rounds and releases, or no to everything.
     *
     * @param policy which text was agreed to
     */
    public void consent(boolean train, String policy) {
        consent(train, train, policy);
    }

    /**
     * Keep what the user agreed to. Until then nothing ever leaves the device. Who declines training has
     * the same recommendations as everybody.
     *
     * @param recommend releases may be fetched, so that there is something to recommend from
     * @param train this device may join rounds
     * @param policy which text was agreed to
     * @throws IllegalArgumentException to train without fetching, or a policy without a name
     */
    public void consent(boolean recommend, boolean train, String policy) {
        consent(recommend, train, false, policy);
    }

    /**
     * The same, with an answer to whether this device may answer questions about how good its lists were,
     * summed up with those of others and noised.
     *
     * @throws IllegalArgumentException also to measure without training
     */
    public void consent(boolean recommend, boolean train, boolean measure, String policy) {
        if (train && !recommend) {
            throw Arguments.wrong("recommend", Arguments.TRAIN_ALONE);
        }
        if (measure && !train) {
            throw Arguments.wrong("measure", Arguments.MEASURE_ALONE);
        }
        Arguments.text("policy", policy, 200, Arguments.POLICY);
        state.keepConsent(recommend, train, measure, policy);
        if (!recommend) {
            session.stop();
        } else if (!train) {
            session.stopRound();
        }
    }

    /** Keep one view, on this device only; kept when this returns. */
    public void record(String item) {
        record(new Interaction(item));
    }

    /**
     * Keep one interaction, on this device only; kept when this returns. A kind that counts against items
     * makes this one and its neighbours score lower; a kind that hides is {@link #hide}.
     */
    public void record(Interaction interaction) {
        Arguments.present("interaction", interaction, Arguments.INTERACTIONS);
        keep(Collections.singletonList(interaction));
    }

    /** Keep many interactions, all or none, in the order of their times. Returns how many. */
    public int recordMany(Collection<Interaction> interactions) {
        Arguments.present("interactions", interactions, Arguments.INTERACTIONS);
        for (Interaction one : interactions) {
            Arguments.present("interactions", one, Arguments.INTERACTIONS);
        }
        keep(new ArrayList<>(interactions));
        return interactions.size();
    }

    private void keep(List<Interaction> interactions) {
        List<Interaction> kept = new ArrayList<>();
        List<String> hidden = new ArrayList<>();
        for (Interaction one : interactions) {
            config.kinds.check(one.kind);
            if (config.kinds.isHiding(one.kind)) {
                hidden.add(one.item);
            } else {
                kept.add(one);
            }
        }
        if (!hidden.isEmpty()) {
            state.hide(hidden);
        }
        state.record(kept);
    }

    /** Never recommend this item again, until {@link #unhide}; the history stays as it is. */
    public void hide(String item) {
        state.hide(Collections.singletonList(Arguments.item("item", item)));
    }

    /** Recommend this item again; false when it was not hidden. */
    public boolean unhide(String item) {
        return state.unhide(Arguments.item("item", item));
    }

    /** The items that were hidden. */
    public @NonNull List<String> hidden() {
        return new ArrayList<>(state.hidden());
    }

    /**
     * Take back everything that was done with an item; how many interactions there were.
     * Recommendations follow at once, and updates that were still to be sent are gone. What earlier rounds
     * summed up cannot be taken back.
     */
    public int remove(String item) {
        return state.remove(Arguments.item("what", item), null);
    }

    /** Take back one interaction of {@link #history}; how many there were. */
    public int remove(Interaction one) {
        return state.remove(null, Arguments.present("what", one, Arguments.ITEM));
    }

    /** What this device keeps, oldest first; a list that never changes. */
    public @NonNull List<Interaction> history() {
        return state.interactions();
    }

    /** Take back everything that was recorded or hidden; how many interactions there were. */
    public int clearHistory() {
        return state.clearHistory();
    }

    /** The n best items for this user that are new to them, best first. Offline; needs a sync before. */
    public @NonNull List<Recommendation> recommend(int n) {
        return recommend(new Wish(n));
    }

    /** The best items for this user, best first, as the wish has it. */
    public @NonNull List<Recommendation> recommend(Wish wish) {
        Arguments.present("wish", wish, "a Wish is expected");
        LocalModel model = state.inUse();
        if (model == null || wish.n <= 0) {
            return Collections.emptyList();
        }
        return model.recommend(state.interactions(), state.hidden(), state.attributes(), wish);
    }

    /**
     * Which items of the user's own history speak for this one, in words for the user. Items have the names
     * that their public attribute {@code title} gives them, where there is one.
     */
    public @NonNull Because because(String item) {
        Arguments.item("item", item);
        LocalModel model = state.inUse();
        List<Reason> found = new ArrayList<>();
        if (model != null) {
            for (Reason one : model.reasons(state.interactions(), item)) {
                if (one.shared + one.personal > 0) {
                    found.add(one);
                }
            }
        }
        Map<String, String> titles = new LinkedHashMap<>();
        for (Reason one : found) {
            String title = attributes(one.item).get("title");
            if (title != null) {
                titles.put(one.item, title);
            }
        }
        return new Because(found, titles, model == null ? 0.0 : model.trend(item));
    }

    /**
     * What the operator tells everybody of this item, such as its title. Offline; empty where nothing is
     * told, and without {@link Config#attributes}.
     */
    public @NonNull Map<String, String> attributes(String item) {
        Arguments.item("item", item);
        LocalModel model = state.inUse();
        return model == null
                ? Collections.<String, String>emptyMap()
                : state.attributes().of(model.ids.row(item));
    }

    /**
     * The first n items of the catalogue, which operators list with the most popular first, without what
     * is hidden or retired. Offline, and the same for every user.
     */
    public @NonNull List<String> popular(int n) {
        LocalModel model = state.inUse();
        return model == null || n <= 0
                ? Collections.<String>emptyList()
                : model.popular(n, state.hidden());
    }

    /**
     * The n items that most devices touched lately, by the noised sums of rounds, without what is hidden or
     * retired. Offline, and the same for every user; empty where the task has no trend, or noise drowns it.
     */
    public @NonNull List<String> trending(int n) {
        LocalModel model = state.inUse();
        return model == null || n <= 0
                ? Collections.<String>emptyList()
                : model.trending(n, state.hidden());
    }

    /** The n items most like this one in what everybody taught C. Offline. */
    public @NonNull List<Similar> similarItems(String item, int n) {
        Arguments.item("item", item);
        LocalModel model = state.inUse();
        return model == null || n <= 0 ? Collections.<Similar>emptyList() : model.similar(item, n);
    }

    /**
     * Fetch the latest catalogue and C, if the user lets it be fetched. Blocks.
     *
     * @throws FedRapException COORDINATOR_UNREACHABLE, UPDATE_REFUSED, BROKEN_MODEL or STOPPED: the
     *     old ones stay in use.
     */
    public void sync() {
        session.sync();
    }

    /** Join a round if there is one for this device. Blocks; never throws for network reasons. */
    public @NonNull RoundReport runRound() {
        return runRound(0, Conditions.ALWAYS);
    }

    /**
     * Join a round if there is one for this device. Blocks; never throws for network reasons.
     *
     * @param waitSeconds where there is no place now, wait so long for one (60 at the most)
     * @param conditions what must hold on the device
     */
    public @NonNull RoundReport runRound(double waitSeconds, Conditions conditions) {
        Arguments.seconds("wait", waitSeconds);
        return session.runRound(
                waitSeconds, Arguments.present("conditions", conditions, Arguments.CALLABLE));
    }

    /**
     * Answer the coordinator's questions about quality, if the user agreed to that; how many were answered
     * now. Each is answered once, at a moment of its time that only this device knows. Blocks; never throws
     * for network reasons.
     */
    public int answerQuestions() {
        return session.answerQuestions();
    }

    /**
     * End the round or sync that runs now, soon, from any thread. A round resumes where it was when it
     * is run again, and is charged once.
     */
    public void stop() {
        session.stop();
    }

    /** Where this device stands. */
    public @NonNull Status status() {
        String blocked = session.blockedBy();
        blocked = blocked != null ? blocked : session.distrusted();
        blocked = blocked != null ? blocked : session.refused();
        return new Status(state, config, blocked, reset);
    }

    /**
     * Write the user's own data as a zip of readable JSON, without any key.
     *
     * @throws IOException it could not be written; an old file stays.
     */
    public @NonNull Exported export(File file) throws IOException {
        Arguments.present("path", file, Arguments.PATH);
        if (file.getPath().isEmpty()) {
            throw Arguments.wrong("path", Arguments.PATH);
        }
        return Export.write(file, state, status(), null);
    }

    /**
     * The same, sealed: nobody reads it without the passphrase of 8 to 1000 characters.
     *
     * @throws IOException it could not be written; an old file stays.
     */
    public @NonNull Exported export(File file, String passphrase) throws IOException {
        Arguments.present("path", file, Arguments.PATH);
        return Export.write(file, state, status(), Arguments.passphrase(passphrase));
    }

    /**
     * Take over the history of another device, from a file of its {@link #export}; how many interactions
     * were new. The ledger comes too: what was spent was spent by the same person. Consent does not.
     *
     * @param passphrase null for an export that is not sealed
     * @throws IOException it cannot be read
     * @throws FedRapException MALFORMED_MESSAGE: it is no export, or needs another passphrase; nothing was
     *     changed
     */
    public int importExport(File file, @Nullable String passphrase) throws IOException {
        Arguments.present("path", file, Arguments.PATH);
        String checked = passphrase == null ? null : Arguments.passphrase(passphrase);
        return state.takeOver(Moving.read(file, checked));
    }

    /**
     * Delete store and key, ask the coordinator to forget this device, and close. Works offline too;
     * the receipt says whether the coordinator confirmed.
     *
     * @throws FedRapException STORE_DAMAGED: a file could not be deleted; the rest is gone.
     */
    public @NonNull Erased erase() {
        state.checkUsable();
        session.stop();
        String reason = Eligibility.UNREACHABLE;
        List<String> deleted;
        try {
            reason = session.forget();
        } finally { // whatever a transport does, the store goes
            deleted = state.erase();
        }
        try {
            Doctor.delete(new File(folder, Doctor.DAMAGED)); // what a repair kept
        } catch (IOException error) {
            throw SealedStore.unusable(error);
        }
        String[] left = folder.list();
        if (left != null && left.length == 0 && !folder.delete()) {
            throw FedRapException.damaged(
                    "the folder of the store could not be deleted: " + folder);
        }
        return new Erased(deleted, reason);
    }

    @Override
    public String toString() {
        return state.isOpen() ? "FedRap(open)" : "FedRap(closed)";
    }

    /** Neither closed nor erased. */
    public boolean isOpen() {
        return state.isOpen();
    }

    /** Give the store back, also in the middle of a round. A second call does nothing. */
    @Override
    public void close() {
        session.stop();
        state.close();
    }
}
