package io.fedrap.core;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;

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
    public static FedRap open(Config config) {
        File folder = new File(config.folder, config.app);
        if (!folder.isDirectory()) {
            if (!folder.mkdirs()) {
                throw FedRapException.damaged("cannot make the folder of the store");
            }
            FolderFiles.makePrivate(folder);
        }
        KeyProvider keys =
                config.key == null ? new KeyFile(new File(folder, KeyFile.NAME)) : config.key;
        return DeviceOpener.open(config, folder, keys);
    }

    static FedRap opened(SealedStore store, Config config, File folder) {
        DeviceState state = new DeviceState(store, config.clock, config.retention);
        return new FedRap(state, config, DeviceOpener.reset(store), folder);
    }

    /**
     * Keep what the user agreed to. Until {@code train} is true nothing ever leaves the device.
     *
     * @param policy which text was agreed to
     */
    public void consent(boolean train, String policy) {
        state.keepConsent(train, policy);
        if (!train) {
            session.stop();
        }
    }

    /** Keep one view, on this device only; kept when this returns. */
    public void record(String item) {
        record(new Interaction(item));
    }

    /** Keep one interaction, on this device only; kept when this returns. */
    public void record(Interaction interaction) {
        state.record(Collections.singletonList(interaction));
    }

    /** Keep many interactions, all or none, in the order of their times. Returns how many. */
    public int recordMany(Collection<Interaction> interactions) {
        state.record(new ArrayList<>(interactions));
        return interactions.size();
    }

    /** The n best items for this user that are new to them, best first. Offline; needs a sync before. */
    public List<Recommendation> recommend(int n) {
        return recommend(n, null, true, false);
    }

    /**
     * The n best items for this user, best first.
     *
     * @param candidates only these; null for all
     * @param filterSeen leave out what the user knows
     * @param explain say why, item by item of the history
     */
    public List<Recommendation> recommend(
            int n, Collection<String> candidates, boolean filterSeen, boolean explain) {
        LocalModel model = state.model();
        if (model == null || n <= 0) {
            return Collections.emptyList();
        }
        return model.recommend(state.interactions(), n, candidates, filterSeen, explain);
    }

    /** The n items most like this one in what everybody taught C. Offline. */
    public List<Similar> similarItems(String item, int n) {
        LocalModel model = state.model();
        return model == null || n <= 0 ? Collections.<Similar>emptyList() : model.similar(item, n);
    }

    /**
     * Fetch the latest catalogue and C, if the user consented. Blocks.
     *
     * @throws FedRapException COORDINATOR_UNREACHABLE, UPDATE_REFUSED, BROKEN_MODEL or STOPPED: the
     *     old ones stay in use.
     */
    public void sync() {
        session.sync();
    }

    /** Join a round if there is one for this device. Blocks; never throws for network reasons. */
    public RoundReport runRound() {
        return runRound(0, Conditions.ALWAYS);
    }

    /**
     * Join a round if there is one for this device. Blocks; never throws for network reasons.
     *
     * @param waitSeconds where there is no place now, wait so long for one (60 at the most)
     * @param conditions what must hold on the device
     */
    public RoundReport runRound(double waitSeconds, Conditions conditions) {
        return session.runRound(waitSeconds, conditions);
    }

    /**
     * End the round or sync that runs now, soon, from any thread. A round resumes where it was when it
     * is run again, and is charged once.
     */
    public void stop() {
        session.stop();
    }

    /** Where this device stands. */
    public Status status() {
        String blocked = session.blockedBy();
        blocked = blocked != null ? blocked : session.distrusted();
        return new Status(state, config.trainer.name(), blocked, reset);
    }

    /**
     * Write the user's own data as a zip of readable JSON, without any key.
     *
     * @throws IOException it could not be written; an old file stays.
     */
    public Exported export(File file) throws IOException {
        return Export.write(file, state, status());
    }

    /**
     * Delete store and key, ask the coordinator to forget this device, and close. Works offline too;
     * the receipt says whether the coordinator confirmed.
     *
     * @throws FedRapException STORE_DAMAGED: a file could not be deleted; the rest is gone.
     */
    public Erased erase() {
        state.checkUsable();
        session.stop();
        String reason = Eligibility.UNREACHABLE;
        List<String> deleted;
        try {
            reason = session.forget();
        } finally { // whatever a transport does, the store goes
            deleted = state.erase();
        }
        String[] left = folder.list();
        if (left != null && left.length == 0 && !folder.delete()) {
            throw FedRapException.damaged(
                    "the folder of the store could not be deleted: " + folder);
        }
        return new Erased(deleted, reason);
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
