package io.fedrap.core;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Which files of a folder are the store's, and their end. */
final class StoreFiles {
    static final String JOURNAL = "journal-";

    private StoreFiles() {}

    static boolean hasJournal(List<String> names) {
        for (String name : names) {
            if (name.startsWith(JOURNAL)) {
                return true;
            }
        }
        return false;
    }

    /** A journal, a blob or an unfinished file. */
    static boolean isOurs(String name) {
        return name.startsWith(JOURNAL)
                || name.startsWith(Blobs.NAME)
                || name.equals(Snapshot.PART)
                || name.equals(StoreRoot.PART);
    }

    /** A file that a store consists of: what a copy of it must have. */
    static boolean isKept(String name) {
        return name.startsWith(JOURNAL)
                || name.startsWith(Blobs.NAME)
                || name.equals(Snapshot.NAME)
                || name.equals(StoreRoot.NAME);
    }

    /** Delete what a crash left behind: all but the snapshot, the root, this journal and these blobs. */
    static void tidy(FileLayer files, List<String> names, String journal, Set<Long> blobs)
            throws IOException {
        Set<String> left = new HashSet<>(names);
        left.remove(journal);
        for (long number : blobs) {
            left.remove(Blobs.NAME + number);
        }
        for (String name : left) {
            if (isOurs(name)) {
                files.delete(name);
            }
        }
    }

    /**
     * Delete the key first: from then on whatever a crash leaves behind is unreadable. Files of
     * others stay.
     *
     * @throws FedRapException STORE_DAMAGED: something could not be deleted; the rest is gone.
     */
    static List<String> delete(FileLayer files, KeyProvider keys) {
        List<String> gone = new ArrayList<>();
        List<String> left = new ArrayList<>();
        try {
            keys.erase();
            gone.add("key");
        } catch (RuntimeException error) { // whatever a key store does, the files must go
            left.add("the key (" + error.getClass().getSimpleName() + ")");
        }
        try {
            for (String name : files.list()) {
                boolean known =
                        isOurs(name)
                                || isKept(name)
                                || name.equals(Withdrawal.NAME)
                                || name.equals(StoreLock.NAME);
                if (known) {
                    deleteOne(files, name, gone, left);
                }
            }
            files.close();
        } catch (IOException error) {
            left.add("the folder (" + error.getMessage() + ")");
        }
        if (!left.isEmpty()) {
            throw FedRapException.damaged("could not be deleted: " + left + "; delete it by hand");
        }
        return gone;
    }

    private static void deleteOne(
            FileLayer files, String name, List<String> gone, List<String> left) {
        try {
            files.delete(name);
            gone.add(name);
        } catch (IOException error) {
            left.add(name + " (" + error.getMessage() + ")");
        }
    }
}
