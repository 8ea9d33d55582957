package io.fedrap.core;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;

/**
 * Word that the consent is taken back, left beside a store for the process that has it open: an empty
 * file. Neither the store's key nor its lock is needed to leave it.
 */
final class Withdrawal {
    static final String NAME = "withdrawn";

    private final File file;

    Withdrawal(File folder) {
        this.file = new File(folder, NAME);
    }

    /**
     * Leave word; durable when this returns.
     *
     * @throws FedRapException STORE_DAMAGED: there is no store here, or it could not be written.
     */
    void leave() {
        if (!file.getParentFile().isDirectory()) {
            throw FedRapException.damaged("there is no store in " + file.getParent());
        }
        try (RandomAccessFile made = new RandomAccessFile(file, "rw")) {
            FolderFiles.makePrivate(file);
            made.getFD().sync();
        } catch (IOException error) {
            throw SealedStore.unusable(error);
        }
    }

    boolean isThere() {
        return file.exists();
    }

    /** It was heard, or a newer answer came. Where it cannot be deleted it is heard again. */
    void clear() {
        try {
            java.nio.file.Files.deleteIfExists(file.toPath());
        } catch (IOException error) {
            // A withdrawal that is heard twice is still one.
        }
    }
}
