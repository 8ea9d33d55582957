package io.fedrap.core;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The guarantee of a policy, in numbers and in words: the same as the coordinator says. */
public final class Statement {
    /** What is protected. */
    public final String unit;

    /** What two worlds are told apart by. */
    public final String adjacency = "zero-out: all contributions of the device replaced by zeros";

    /** b, in released steps. */
    public final long separation;

    /** K, rounds that a device joins in any window. */
    public final long cap;

    /** Of such a window; 0 where K is for all of a device's life. */
    public final double windowDays;

    /** Charged over ten windows; that of one where K is for a life. */
    public final double lifetimeEpsilon;

    /** z, standard deviation of the noise over the clip. */
    public final double noise;

    /** S, the largest norm of an update. */
    public final double clip;

    /** The largest norm of one row; NaN where there is none. */
    public final double rowClip;

    /** Does S follow a quantile? */
    public final boolean clipAdapts;

    /** Of epsilon. */
    public final double delta;

    /** Charged to a device that took part K times, unamplified; infinite without noise. */
    public final double epsilon;

    /** What epsilon rests on. */
    public final List<String> assumptions;

    /** Who is trusted with what. */
    public final Map<String, String> trusted;

    Statement(Privacy rule, Aggregation aggregation) {
        trusted = Collections.unmodifiableMap(aggregation == null ? trusted() : aggregation.trusted());
        separation = rule.separation;
        cap = rule.cap;
        windowDays = rule.windowDays;
        unit =
                windowDays > 0
                        ? "one device with everything it contributes in any " + days(rule)
                        : "one device with everything it ever recorded";
        long most = windowDays > 0 ? 10 * cap : cap;
        lifetimeEpsilon = Accounting.chargedEpsilon(most, rule.chargedNoise(), rule.delta);
        noise = rule.noise;
        clip = rule.clip;
        rowClip = rule.rowClip;
        clipAdapts = rule.adapt != null;
        delta = rule.delta;
        epsilon = rule.epsilon();
        assumptions = Collections.unmodifiableList(assumptions(rule));
    }

    private static Map<String, String> trusted() {
        Map<String, String> found = new LinkedHashMap<>();
        found.put(
                "the aggregator process",
                "reads each share in memory, adds the noise, keeps the noise key");
        found.put(
                "the coordinator's database",
                "who took part and when; updates only sealed, until a release");
        found.put("the network", "that a device talks to the coordinator, when, and padded sizes");
        found.put(
                "other users and the public",
                "nothing: they see releases, which is what epsilon bounds");
        return found;
    }

    private static String days(Privacy rule) {
        return String.format(Locale.ROOT, "%.0f days", rule.windowDays);
    }

    private static List<String> assumptions(Privacy rule) {
        List<String> found = new ArrayList<>();
        if (rule.noise == 0) {
            found.add("noise is 0: there is no privacy guarantee");
            return found;
        }
        found.add("nothing is assumed about who takes part when, and nothing is gained from sampling");
        found.add(
                "no device is in more than " + rule.cap + " releases"
                        + (rule.windowDays > 0 ? " whose rounds it joined within " + days(rule) : "")
                        + ", nor in two less than "
                        + rule.separation
                        + " steps apart; the coordinator and the device both see to it");
        found.add("the aggregator clips every update, adds the noise and lets nobody see a sum without it");
        found.add("every release was made under this policy, and a person has one device");
        if (rule.coefficients.length > 1) {
            double square = 0;
            for (double one : rule.coefficients) {
                square += one * one;
            }
            found.add(
                    String.format(
                            Locale.ROOT,
                            "noise is correlated, taken back over %d later steps; charged with |c| = %.3f,"
                                    + " which needs the separation above",
                            rule.coefficients.length - 1, Math.sqrt(square)));
        }
        if (rule.adapt != null) {
            found.add(
                    String.format(
                            Locale.ROOT,
                            "the clip follows one bit of each update; the bit is charged with the"
                                    + " update, at z = %.3f in all",
                            rule.chargedNoise()));
        }
        return found;
    }

    @Override
    public String toString() {
        return "Statement(epsilon " + epsilon + " at delta " + delta + ", at most " + cap + " rounds)";
    }
}
