package io.fedrap.ort;

import io.fedrap.core.FedRapException;
import java.lang.reflect.InvocationTargetException;

/**
 * ONNX Runtime without its telemetry.
 *
 * <p>From 1.29 on it reports to its vendor and writes a lasting identifier. Only ORT_DISABLE_TELEMETRY=1
 * in the environment, before it is loaded, prevents that. On Android a process sets it for itself; on a
 * desktop JVM it can't, so a version that would report is refused there.
 */
final class Telemetry {
    static final String SWITCH = "ORT_DISABLE_TELEMETRY";
    private static final int REPORTS_FROM = 29; // 1.29

    private Telemetry() {}

    /**
     * Turns it off; to be called before the first class of ai.onnxruntime is initialised.
     *
     * @throws FedRapException TRAINER_UNAVAILABLE where it can't be turned off, or where there is no
     *     ONNX Runtime
     */
    static void silence() {
        if (setOnAndroid()) {
            return;
        }
        String why = refusal(version(), System.getenv(SWITCH));
        if (why != null) {
            throw new FedRapException(FedRapException.Kind.TRAINER_UNAVAILABLE, why);
        }
    }

    /** Why this version must not be loaded with this environment; null when it may. */
    static String refusal(String version, String set) {
        if ("1".equals(set) || version != null && version.matches("1\\.[0-9]+\\..*")
                && Integer.parseInt(version.split("\\.")[1]) < REPORTS_FROM) {
            return null;
        }
        return "onnxruntime " + (version == null ? "of an unknown version" : version)
                + " may report to its vendor; start the process with " + SWITCH
                + "=1, or use 1.28.0";
    }

    /** android.system.Os.setenv, which no desktop has. */
    private static boolean setOnAndroid() {
        try {
            Class.forName("android.system.Os")
                    .getMethod("setenv", String.class, String.class, boolean.class)
                    .invoke(null, SWITCH, "1", true);
            return true;
        } catch (ClassNotFoundException | NoSuchMethodException desktop) {
            return false;
        } catch (IllegalAccessException | InvocationTargetException failed) {
            throw new FedRapException(
                    FedRapException.Kind.TRAINER_UNAVAILABLE,
                    "the telemetry of onnxruntime could not be turned off",
                    failed);
        }
    }

    /** From the jar's manifest; loads a class, but runs nothing of it. */
    private static String version() {
        try {
            ClassLoader loader = Telemetry.class.getClassLoader();
            Package found = Class.forName("ai.onnxruntime.OrtException", false, loader).getPackage();
            return found == null ? null : found.getImplementationVersion();
        } catch (ClassNotFoundException error) {
            throw new FedRapException(
                    FedRapException.Kind.TRAINER_UNAVAILABLE,
                    "there is no onnxruntime in this app; add it, or use the plain trainer",
                    error);
        }
    }
}
