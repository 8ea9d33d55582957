package io.fedrap.android;

import android.content.Context;
import android.os.Looper;
import io.fedrap.core.Config;
import io.fedrap.core.Erased;
import io.fedrap.core.FedRap;
import io.fedrap.core.FedRapException;
import io.fedrap.core.RoundReport;
import java.io.File;

/**
 * The recommender of an Android app: one per process, its rounds in the background.
 *
 * <p>The app's {@link android.app.Application} implements {@link Setup}, so that a process that the
 * system starts for a job finds the same settings as one that a user starts. The store is where no
 * backup takes it, its key is wrapped by the Keystore, and until the user consented nothing leaves the
 * device, job or not. An app of several processes uses this in one of them.
 */
public final class FedRapAndroid {
    /** The app's own settings. Its Application implements this. */
    public interface Setup {
        /**
         * Asked each time the recommender is opened, on any thread.
         *
         * @param config with this device's folder and key; the coordinator and where a token comes
         *     from are to be added, and a {@code profile} where several people use the app
         * @return the same, filled in
         */
        Config fedrap(Config config);
    }

    private static FedRap device; // the store has one owner

    private FedRapAndroid() {}

    /**
     * The recommender, opened on first use, and the same one until it is closed or erased.
     *
     * <p>Reads files: tens of milliseconds. A store whose key the Keystore has lost is started afresh;
     * {@code status().storeReset} says so.
     *
     * @throws IllegalStateException the Application does not implement {@link Setup}
     * @throws FedRapException STORE_BUSY: another process of the app has it open. STORE_DAMAGED: the
     *     disk is full or away
     */
    public static synchronized FedRap open(Context context) {
        if (device == null || !device.isOpen()) {
            device = FedRap.open(config(context.getApplicationContext()));
        }
        return device;
    }

    private static Config config(Context application) {
        if (!(application instanceof Setup)) {
            throw new IllegalStateException(
                    "the Application of this app must implement FedRapAndroid.Setup, and be named in"
                            + " the manifest: <application android:name=…>");
        }
        RuntimeTelemetry.warn(application);
        File folder = new File(application.getNoBackupFilesDir(), "fedrap");
        Config config =
                new Config(folder)
                        .key(new KeystoreWrap(new File(application.getNoBackupFilesDir(), "fedrap.key")))
                        .freshWhenLost(true);
        Config filled = ((Setup) application).fedrap(config);
        if (filled == null) {
            throw new IllegalStateException("FedRapAndroid.Setup gave no Config");
        }
        return filled;
    }

    /**
     * Close the recommender, so that the next {@link #open} asks the {@link Setup} anew: for an app in
     * which somebody else logs in. What this user has stays, with a key of its own.
     */
    public static synchronized void logOut() {
        if (device != null) {
            device.close();
            device = null;
        }
    }

    /**
     * Have rounds run in the background, on an unmetered network, charging and idle, as often as the
     * coordinator wants. Survives restarts of the device. What is scheduled already stays as it is, so
     * this may be called at each start of the app; to be called when the user consents.
     *
     * @return false: the system refuses jobs of this app
     */
    public static boolean schedule(Context context) {
        return new RoundJob(context).ensure();
    }

    /** No more rounds in the background; one that runs is stopped, and resumes when scheduled again. */
    public static void cancel(Context context) {
        new RoundJob(context).cancel();
    }

    /**
     * Join a round now if there is one: for an app with a {@code Worker} of its own, which then looks
     * at network and power itself. Blocks; {@code open(context).stop()} ends it.
     *
     * @throws IllegalStateException called on the main thread
     */
    public static RoundReport runOnce(Context context) {
        checkThread();
        return open(context).runRound();
    }

    /** Where this device stands, and why no round runs. */
    public static RoundStatus status(Context context) {
        return new RoundStatus(context, open(context).status(), new RoundJob(context).pending());
    }

    /**
     * Cancel the job, delete the store and its key, and ask the coordinator to forget this device.
     * Blocks up to ten seconds; works offline too, and the receipt says what was done.
     *
     * @throws IllegalStateException called on the main thread
     */
    public static Erased erase(Context context) {
        checkThread();
        cancel(context);
        return open(context).erase();
    }

    private static void checkThread() {
        if (Looper.myLooper() == Looper.getMainLooper()) {
            throw new IllegalStateException("this waits for the network; call it in another thread");
        }
    }
}
