package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.HashSet;
import java.util.Set;

/** One writer at a time: among processes by a lock on a file, within this one by a set of names. */
final class StoreLock implements Closeable {
    static final String NAME = "lock";

    // Closing any descriptor of a file drops a process's locks on it, so a second opener in this
    // process must be turned away before it opens the file.
    private static final Set<String> TAKEN = new HashSet<>();

    private final String path;
    private final RandomAccessFile file;

    private StoreLock(String path, RandomAccessFile file) {
        this.path = path;
        this.file = file;
    }

    /**
     * The lock of a folder.
     *
     * @throws FedRapException STORE_BUSY: somebody else has it.
     */
    static StoreLock take(File folder) throws IOException {
        File place = new File(folder, NAME);
        String path = place.getCanonicalPath();
        synchronized (TAKEN) {
            if (!TAKEN.add(path)) {
                throw new FedRapException(
                        Kind.STORE_BUSY,
                        "the store is open in this process; close it there first");
            }
        }
        RandomAccessFile file = null;
        try {
            while (true) {
                place.createNewFile();
                Object before = identity(place);
                file = new RandomAccessFile(place, "rw");
                if (file.getChannel().tryLock() == null) {
                    throw new FedRapException(
                            Kind.STORE_BUSY,
                            "the store is open in another process; close it there first");
                }
                if (before != null && before.equals(identity(place))) {
                    return new StoreLock(path, file);
                }
                file.close(); // it was erased meanwhile; the lock of a ghost guards nothing
            }
        } catch (IOException | RuntimeException error) {
            if (file != null) {
                file.close();
            }
            synchronized (TAKEN) {
                TAKEN.remove(path);
            }
            throw error;
        }
    }

    /** Which file has this name; asked without opening it. Null when there is none. */
    private static Object identity(File place) throws IOException {
        try {
            Object key = Files.readAttributes(place.toPath(), BasicFileAttributes.class).fileKey();
            return key == null ? place : key; // not every system names its files
        } catch (NoSuchFileException error) {
            return null;
        }
    }

    @Override
    public void close() throws IOException {
        try {
            file.close();
        } finally {
            synchronized (TAKEN) {
                TAKEN.remove(path);
            }
        }
    }
}
