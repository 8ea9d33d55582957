package io.fedrap.android;

import android.content.ComponentName;
import android.content.Context;
import android.content.pm.PackageManager;
import android.util.Log;

/**
 * ONNX Runtime's own reports to its vendor, from 1.29 on.
 *
 * <p>This library's manifest removes what starts them; an app that names the runtime first may have
 * kept it all the same. The trainer on ONNX Runtime turns them off once more before it loads it.
 */
final class RuntimeTelemetry {
    static final String INITIALIZER = "ai.onnxruntime.TelemetryInitializer";

    private RuntimeTelemetry() {}

    /** A line in the log for the app's developer; true where there was a reason. */
    static boolean warn(Context context) {
        try {
            ComponentName name = new ComponentName(context.getPackageName(), INITIALIZER);
            context.getPackageManager().getProviderInfo(name, 0);
        } catch (PackageManager.NameNotFoundException absent) {
            return false;
        }
        Log.w("fedrap", INITIALIZER + " is in this app's manifest and reports to its vendor; remove it"
                        + " there with tools:node=\"remove\"");
        return true;
    }
}
