package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Collections;
import java.util.List;

/**
 * What is wrong with a store, and what can be done about it, without any of it being lost.
 *
 * <p>{@code examine} changes nothing. {@code repair} keeps the files as they were in a folder beside
 * them, takes what can still be read, and seals the root anew. Where records were removed or replaced
 * the ledger is not to be trusted any more: history and recommendations are back, but the device joins
 * no more rounds, because what it spent is not known.
 */
final class Doctor {
    static final String DAMAGED = "damaged";
    private static final String RESET = "reset";
    private static final String COPY = "doctor.part";

    private final Config config;
    private final File folder;
    private final KeyProvider keys;

    Doctor(Config config, File folder, KeyProvider keys) {
        this.config = config;
        this.folder = folder;
        this.keys = keys;
    }

    /** Opens the device, and starting afresh where nothing opens its store and the app wants that. */
    FedRap open() {
        try {
            return opened();
        } catch (FedRapException error) {
            boolean trouble = error.getCause() instanceof IOException; // a disk that is full or away
            boolean lost = error.kind() == Kind.STORE_LOCKED || error.kind() == Kind.STORE_DAMAGED && !trouble;
            if (!config.freshWhenLost || !lost) {
                throw error;
            }
            config.onError.heard(error);
            wipe();
            SealedStore store = SealedStore.open(folder, keys);
            byte[] told = StateCodec.list(error.kind().name(), config.clock.getAsDouble());
            store.commit(Collections.singletonMap(RESET, told), true);
            return FedRap.opened(store, config, folder);
        }
    }

    private FedRap opened() {
        SealedStore store = SealedStore.open(folder, keys);
        try {
            return FedRap.opened(store, config, folder);
        } catch (RuntimeException error) {
            store.close();
            throw error;
        }
    }

    private void wipe() {
        try {
            StoreLock lock = StoreLock.take(folder);
            try {
                StoreFiles.delete(new FolderFiles(folder), keys);
            } finally {
                lock.close();
            }
        } catch (IOException error) {
            throw FedRapException.damaged(
                    "the store cannot be started afresh: " + error.getMessage(), error);
        }
    }

    /** That a store was started afresh once, if so. */
    static StoreReset reset(SealedStore store) {
        List<?> told = StateCodec.list(store.get(RESET));
        return told.isEmpty()
                ? null
                : new StoreReset(Kind.valueOf((String) told.get(0)), (Double) told.get(1));
    }

    /** Look at a store without changing it: at a copy. */
    Diagnosis examine() {
        return guarded(false);
    }

    /** Make a store that opens, of what can be read; the files stay as they were in {@code damaged}. */
    Diagnosis repair() {
        return guarded(true);
    }

    /** With the lock of the store, so that nobody else has it. */
    private Diagnosis guarded(boolean mend) {
        if (!new File(folder, Snapshot.NAME).exists()) {
            throw FedRapException.damaged("there is no store in " + folder);
        }
        try {
            StoreLock lock = StoreLock.take(folder);
            try {
                Diagnosis before = look(copied(COPY));
                return mend && !(before.opens && before.findings.isEmpty()) ? mended() : before;
            } finally {
                delete(new File(folder, COPY));
                lock.close();
            }
        } catch (IOException error) {
            throw SealedStore.unusable(error);
        }
    }

    private Diagnosis mended() throws IOException {
        SealedStore.openChanged(new FolderFiles(copied(COPY)), keys).close();
        Diagnosis after = look(new File(folder, COPY));
        if (!after.opens) {
            throw FedRapException.damaged(after.findings.get(0));
        }
        copied(DAMAGED);
        replace(new File(folder, COPY));
        return after;
    }

    private Diagnosis look(File copy) {
        SealedStore store = null;
        try {
            store = SealedStore.open(new FolderFiles(copy), null, keys);
            DeviceState state =
                    new DeviceState(
                            store, config.clock, config.retention, config.kinds, new Withdrawal(copy));
            return new Diagnosis(true, state.recorded(), state.setAside(), state.isLedgerLost());
        } catch (FedRapException error) {
            if (error.kind() != Kind.STORE_DAMAGED) {
                throw error;
            }
            return new Diagnosis(false, 0, Collections.singletonList(error.getMessage()), false);
        } finally {
            if (store != null) {
                store.close();
            }
        }
    }

    /** A fresh copy of the store's files in a folder of that name. */
    private File copied(String name) throws IOException {
        File copy = new File(folder, name);
        delete(copy);
        Files.createDirectory(copy.toPath());
        FolderFiles.makePrivate(copy);
        for (File one : listed(folder)) {
            if (StoreFiles.isKept(one.getName())) {
                Files.copy(one.toPath(), new File(copy, one.getName()).toPath());
            }
        }
        return copy;
    }

    /** The root comes last: until it is there, the old one says that something is wrong. */
    private void replace(File mended) throws IOException {
        for (File one : listed(folder)) {
            if (StoreFiles.isKept(one.getName()) && !one.getName().equals(StoreRoot.NAME)) {
                Files.deleteIfExists(one.toPath());
            }
        }
        FolderFiles files = new FolderFiles(folder);
        for (File one : listed(mended)) {
            if (!one.getName().equals(StoreRoot.NAME)) {
                files.rename(COPY + "/" + one.getName(), one.getName());
            }
        }
        files.syncFolder();
        files.rename(COPY + "/" + StoreRoot.NAME, StoreRoot.NAME);
        files.syncFolder();
    }

    private static File[] listed(File folder) throws IOException {
        File[] found = folder.listFiles();
        if (found == null) {
            throw new IOException("cannot list " + folder);
        }
        return found;
    }

    static void delete(File folder) throws IOException {
        if (folder.isDirectory()) {
            for (File one : listed(folder)) {
                Files.deleteIfExists(one.toPath());
            }
            Files.deleteIfExists(folder.toPath());
        }
    }
}
