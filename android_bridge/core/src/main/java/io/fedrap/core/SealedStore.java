package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The encrypted store of one device: named values in a snapshot, and a journal of what changed since.
 *
 * <p>No item id, vector or key is ever in a file in clear. A commit is there whole or not at all,
 * whatever fails and whenever the process dies; large values are in files of their own, written
 * before the record that names them. The journal is folded into a new snapshot when it has grown
 * larger than the snapshot, so the store takes a small multiple of what it holds. A sealed root
 * counts what is durable: files that were cut are damage.
 */
final class SealedStore {
    static final int LARGE = 32 * 1024; // bytes from which a value gets a file of its own
    static final int LONG_JOURNAL = 256 * 1024;

    private final FileLayer files;
    private final StoreLock lock; // null in tests of the files alone
    private final KeyProvider keys;
    private Snapshot head;
    private Sealer sealer;
    private Map<String, Object> values = new LinkedHashMap<>();
    private Blobs blobs;
    private int snapshotBytes;
    private int journalEnd; // bytes that are good
    private int records;
    private int synced; // of the records
    private boolean rooted; // the root counts all that are synced
    private boolean torn; // something may stand behind the end
    private boolean closed;
    private boolean acceptChanged; // a repair: take what is left

    private SealedStore(FileLayer files, StoreLock lock, KeyProvider keys) {
        this.files = files;
        this.lock = lock;
        this.keys = keys;
    }

    /**
     * The store of a folder, made on first use.
     *
     * @throws FedRapException STORE_BUSY: another one has it open.
     * @throws FedRapException STORE_LOCKED: the key does not open it.
     * @throws FedRapException STORE_DAMAGED: its files cannot be used. Nothing was changed.
     */
    static SealedStore open(File folder, KeyProvider keys) {
        try {
            return open(new FolderFiles(folder), StoreLock.take(folder), keys);
        } catch (IOException error) {
            throw unusable(error);
        }
    }

    /** With these files; a test makes them fail. */
    static SealedStore open(FileLayer files, StoreLock lock, KeyProvider keys) {
        return opened(new SealedStore(files, lock, keys));
    }

    /**
     * A store whose files are not those that were written last, as they are: what is left of it, with
     * the ledger remembered as lost. For a repair that its owner asked for.
     */
    static SealedStore openChanged(FileLayer files, KeyProvider keys) {
        SealedStore store = new SealedStore(files, null, keys);
        store.acceptChanged = true;
        return opened(store);
    }

    private static SealedStore opened(SealedStore store) {
        try {
            store.load();
            if (store.acceptChanged) {
                store.commit(
                        java.util.Collections.singletonMap(SetAside.LEDGER_LOST, new byte[] {1}), true);
            }
            return store;
        } catch (IOException error) {
            store.close();
            throw unusable(error);
        } catch (RuntimeException error) {
            store.close();
            throw error;
        }
    }

    static FedRapException unusable(IOException error) {
        return FedRapException.damaged("the store cannot be used: " + error.getMessage(), error);
    }

    /** The value of a name; null when there is none. */
    synchronized byte[] get(String name) {
        checkOpen();
        Object kept = values.get(name);
        if (kept == null) {
            return null;
        }
        return kept instanceof Long ? blobs.read((Long) kept) : ((byte[]) kept).clone();
    }

    /** All names with this beginning, in the order in which they first came. */
    synchronized List<String> names(String beginning) {
        checkOpen();
        List<String> found = new ArrayList<>();
        for (String name : values.keySet()) {
            if (name.startsWith(beginning)) {
                found.add(name);
            }
        }
        return found;
    }

    /**
     * Keep all of these values or none; a null deletes. Survives the end of the process when this
     * returns, and a loss of power when {@code durable}.
     *
     * @throws FedRapException STORE_DAMAGED: it could not be written; everything is as before.
     */
    synchronized void commit(Map<String, byte[]> changes, boolean durable) {
        checkOpen();
        Map<String, Object> record = new LinkedHashMap<>();
        Set<Long> made = new LinkedHashSet<>();
        try {
            cutTail();
            for (Map.Entry<String, byte[]> one : changes.entrySet()) {
                record.put(one.getKey(), kept(one.getValue(), made));
            }
            Set<Long> replaced = blobsOf(record.keySet());
            if (!made.isEmpty()) {
                files.syncFolder();
            }
            append(Changes.encode(record), durable || !replaced.isEmpty() || !made.isEmpty());
            apply(record);
            blobs.delete(replaced);
        } catch (IOException error) {
            blobs.delete(made);
            throw FedRapException.damaged(
                    "the store could not be written: " + error.getMessage() + "; nothing was changed,"
                            + " try again when there is room and the folder may be written",
                    error);
        }
        if (journalEnd > LONG_JOURNAL + snapshotBytes) {
            compactIfPossible();
        }
    }

    /** Like a durable commit, and what is gone is not in any file afterwards, as far as files can. */
    synchronized void forget(Map<String, byte[]> changes) {
        commit(changes, true);
        compactIfPossible();
    }

    /** Let go of the files; a second call does nothing. */
    synchronized void close() {
        closed = true;
        try {
            files.close();
        } catch (IOException error) {
            // Whatever was said to be kept was synced before.
        } finally {
            unlock();
        }
    }

    /**
     * Delete the key and all files, and close; returns the names of what there was.
     *
     * @throws FedRapException STORE_DAMAGED: something could not be deleted; it is named, and the rest is gone.
     */
    synchronized List<String> destroy() {
        closed = true;
        try {
            return StoreFiles.delete(files, keys);
        } finally {
            unlock();
        }
    }

    private void unlock() {
        try {
            if (lock != null) {
                lock.close();
            }
        } catch (IOException error) {
            // The end of the process gives it back.
        }
    }

    private void checkOpen() {
        if (closed) {
            throw new FedRapException(Kind.STORE_CLOSED, "the store is closed; open it again");
        }
    }

    private void load() throws IOException {
        List<String> names = Arrays.asList(files.list());
        byte[] raw = names.contains(Snapshot.NAME) ? files.read(Snapshot.NAME) : null;
        if (raw == null && StoreFiles.hasJournal(names)) {
            throw FedRapException.damaged(
                    "the store's snapshot is missing; restore it, or delete the store");
        }
        byte[] key = keys.key(raw != null);
        if (raw == null) {
            create(key);
            return;
        }
        head = Snapshot.head(raw);
        sealer = new Sealer(key, head.storeName);
        blobs = new Blobs(files, sealer);
        values = Snapshot.values(head, sealer, raw);
        snapshotBytes = raw.length;
        byte[] journal = files.read(journalName());
        Journal read =
                Journal.read(
                        sealer, head.generation, journal == null ? new byte[0] : journal, acceptChanged);
        boolean rootless = head.schema == Snapshot.ROOTLESS;
        if (!rootless && !acceptChanged) {
            StoreRoot root = StoreRoot.read(files, sealer);
            root.check(head.generation, read.records.size());
            rooted = root.generation == head.generation && root.records == read.records.size();
        }
        for (byte[] one : read.records) {
            apply(Changes.decode(one));
        }
        records = synced = read.records.size(); // whoever reads them after a crash relies on them
        journalEnd = read.end;
        torn = journal != null && journal.length > read.end;
        if (acceptChanged) {
            dropUnreadable();
        }
        Set<Long> named = blobsOf(values.keySet());
        Blobs.check(named, names);
        cutTail(); // only now: until here nothing was changed
        if (journal != null) {
            files.sync(journalName());
        }
        StoreFiles.tidy(files, names, journalName(), named);
        if (rootless) {
            new StoreRoot(head.generation + 1, 0).write(files, sealer); // first: a crash keeps the old
            compactIfPossible();
        } else {
            writeRootIfPossible();
        }
    }

    /** Values whose own file is gone or was changed. */
    private void dropUnreadable() {
        for (String name : new ArrayList<>(values.keySet())) {
            try {
                get(name);
            } catch (FedRapException error) {
                values.remove(name);
            }
        }
    }

    private void create(byte[] key) throws IOException {
        head = Snapshot.newHead();
        sealer = new Sealer(key, head.storeName);
        blobs = new Blobs(files, sealer);
        new StoreRoot(head.generation, 0).write(files, sealer); // first: a store always has one
        rooted = true;
        snapshotBytes = Snapshot.write(files, head, sealer, values);
    }

    private void append(byte[] plaintext, boolean durable) throws IOException {
        byte[] record = Journal.record(sealer, head.generation, records, synced, plaintext);
        torn = true; // until all of it is there
        try {
            files.append(journalName(), record);
            if (durable) {
                files.sync(journalName());
                if (synced == 0) {
                    files.syncFolder();
                }
            }
        } catch (IOException error) {
            try {
                cutTail();
            } catch (IOException again) {
                error.addSuppressed(again); // the next commit tries once more
            }
            throw error;
        }
        torn = false;
        journalEnd += record.length;
        records++;
        if (durable) {
            synced = records;
            rooted = false;
        }
        writeRootIfPossible();
    }

    /**
     * After the records that it counts. A failure costs nothing but the guard of the last ones: the
     * record is on the disk, and the next commit tries again.
     */
    private void writeRootIfPossible() {
        if (rooted) {
            return;
        }
        try {
            new StoreRoot(head.generation, synced).write(files, sealer);
            rooted = true;
        } catch (IOException error) {
            // As said above.
        }
    }

    private void cutTail() throws IOException {
        if (torn) {
            files.truncate(journalName(), journalEnd);
            torn = false;
        }
    }

    private Object kept(byte[] value, Set<Long> made) throws IOException {
        if (value == null) {
            return null;
        }
        if (value.length < LARGE) {
            return value.clone();
        }
        return blobs.write(value, made);
    }

    private void apply(Map<String, Object> record) {
        for (Map.Entry<String, Object> one : record.entrySet()) {
            if (one.getValue() == null) {
                values.remove(one.getKey());
            } else {
                values.put(one.getKey(), one.getValue());
            }
        }
    }

    private Set<Long> blobsOf(Set<String> names) {
        Set<Long> found = new LinkedHashSet<>();
        for (String name : names) {
            Object kept = values.get(name);
            if (kept instanceof Long) {
                found.add((Long) kept);
            }
        }
        return found;
    }

    /** A failure costs nothing: the journal goes on, and the next commit tries again. */
    private void compactIfPossible() {
        String old = journalName();
        Snapshot next = head.next();
        try {
            snapshotBytes = Snapshot.write(files, next, sealer, values);
        } catch (IOException error) {
            closed = true; // until it is known which of the two files is there
            if (!Snapshot.isInPlace(files, next)) {
                closed = false;
                return;
            }
            closed = false;
        }
        head = next;
        journalEnd = records = synced = 0;
        torn = false;
        rooted = false;
        writeRootIfPossible();
        try {
            files.delete(old);
        } catch (IOException error) {
            // The next opening deletes it.
        }
    }

    private String journalName() {
        return StoreFiles.JOURNAL + head.generation;
    }
}
