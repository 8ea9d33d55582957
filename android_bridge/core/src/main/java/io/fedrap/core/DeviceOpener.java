package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.io.File;
import java.io.IOException;
import java.util.Collections;
import java.util.List;

/** Opens a device, and starting afresh where nothing opens its store and the app wants that. */
final class DeviceOpener {
    private static final String RESET = "reset";

    private DeviceOpener() {}

    static FedRap open(Config config, File folder, KeyProvider keys) {
        try {
            return opened(config, folder, keys);
        } catch (FedRapException error) {
            boolean lost =
                    error.kind() == Kind.STORE_LOCKED
                            || error.kind() == Kind.STORE_DAMAGED && !isTrouble(error);
            if (!config.freshWhenLost || !lost) {
                throw error;
            }
            config.onError.heard(error);
            wipe(folder, keys);
            SealedStore store = SealedStore.open(folder, keys);
            byte[] told = StateCodec.list(error.kind().name(), config.clock.getAsDouble());
            store.commit(Collections.singletonMap(RESET, told), true);
            return FedRap.opened(store, config, folder);
        }
    }

    private static FedRap opened(Config config, File folder, KeyProvider keys) {
        SealedStore store = SealedStore.open(folder, keys);
        try {
            return FedRap.opened(store, config, folder);
        } catch (RuntimeException error) {
            store.close();
            throw error;
        }
    }

    /** A disk that is full or away is no reason to delete anything. */
    private static boolean isTrouble(FedRapException error) {
        return error.getCause() instanceof IOException;
    }

    private static void wipe(File folder, KeyProvider keys) {
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

    /** That it was started afresh once, if so. */
    static StoreReset reset(SealedStore store) {
        List<?> told = StateCodec.list(store.get(RESET));
        return told.isEmpty()
                ? null
                : new StoreReset(Kind.valueOf((String) told.get(0)), (Double) told.get(1));
    }
}
