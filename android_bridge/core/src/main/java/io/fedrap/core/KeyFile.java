package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.security.SecureRandom;

/** Keeps the key in a file that only its owner reads: for the JVM, where there is no Keystore. */
public final class KeyFile implements KeyProvider {
    static final String NAME = "store.key";

    private final File file;

    /** The key is in this file, made on first use. */
    public KeyFile(File file) {
        this.file = file;
    }

    @Override
    public byte[] key(boolean storeExists) {
        try {
            if (!file.exists()) {
                if (storeExists) {
                    throw new FedRapException(
                            Kind.STORE_LOCKED,
                            file.getName() + " is gone, and nothing else opens this store;"
                                    + " restore it, or delete the store's folder");
                }
                make();
            }
            return read();
        } catch (IOException error) {
            throw new FedRapException(
                    Kind.STORE_LOCKED,
                    "the key file cannot be used: " + error.getMessage(), error);
        }
    }

    private void make() throws IOException {
        byte[] key = new byte[KEY_BYTES];
        new SecureRandom().nextBytes(key);
        FolderFiles.writePrivate(file, key);
    }

    private byte[] read() throws IOException {
        byte[] key = new byte[KEY_BYTES + 1];
        try (FileInputStream in = new FileInputStream(file)) {
            int size = Math.max(0, in.read(key));
            return java.util.Arrays.copyOf(key, size);
        }
    }

    @Override
    public String toString() {
        return "KeyFile(" + file + ")";
    }

    /** Overwrites it first, so that the key is not in a block that was merely given back. */
    @Override
    public void erase() {
        overwriteAndDelete(new File(file.getPath() + ".part"));
        overwriteAndDelete(file);
    }

    private static void overwriteAndDelete(File file) {
        if (!file.exists()) {
            return;
        }
        try (RandomAccessFile open = new RandomAccessFile(file, "rw")) {
            open.write(new byte[(int) open.length()]);
            open.getFD().sync();
        } catch (IOException error) {
            throw FedRapException.damaged("the key file could not be overwritten: " + file, error);
        }
        if (!file.delete()) {
            throw FedRapException.damaged("could not be deleted: " + file + "; delete it by hand");
        }
    }
}
