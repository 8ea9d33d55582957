package io.fedrap.sample;

import android.content.Context;
import android.util.Log;
import io.fedrap.android.FedRapAndroid;
import io.fedrap.core.FedRap;
import io.fedrap.core.Recommendation;

/** The lines of docs/android.md, compiled and run by tests so that they stay true. */
final class Quickstart {
    private Quickstart() {}

    static void run(Context context) {
        // begin: activity
        FedRap fr = FedRapAndroid.open(context);        // offline; the same one in the whole process
        fr.consent(true, "2026-11");                    // the user agreed; before that nothing is sent
        FedRapAndroid.schedule(context);                // rounds when charging, idle, on free network
        fr.record("item-1");                            // kept on this phone, sealed
        fr.sync();                                      // fetch the release now; in a worker thread
        for (Recommendation one : fr.recommend(10)) {   // offline, in milliseconds
            Log.i("shop", one.item + " " + one.score);
        }
        // end: activity
    }
}
