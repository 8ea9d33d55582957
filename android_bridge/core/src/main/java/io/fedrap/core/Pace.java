package io.fedrap.core;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/** When to try again: the same decision as in Python's background rounds. Pure; times in seconds. */
public final class Pace {
    /** Period 15 minutes, looks each minute, backoff from 30 seconds to a day. */
    public static final Pace DEFAULT = new Pace(900, 60, 30, 86_400);

    private static final double LEAST = 1.0; // even for a coordinator that says "at once"
    private static final Set<String> WAITING = // for something on this device; nobody was asked
            new HashSet<>(
                    Arrays.asList(
                            Eligibility.NO_CONSENT, Eligibility.OFFLINE, Eligibility.NO_SERVER, Eligibility.NO_TOKEN,
                            Eligibility.NOTHING_TO_SHARE, Eligibility.LEDGER_LOST, Eligibility.ALREADY_RUNNING, Eligibility.NOT_CHARGING,
                            Eligibility.METERED, Eligibility.NOT_IDLE, Eligibility.LOW_BATTERY, Eligibility.STOPPED));
    private static final Set<String> TROUBLE =
            new HashSet<>(
                    Arrays.asList(
                            Eligibility.UNREACHABLE, Eligibility.BROKEN_RELEASE, Eligibility.TOKEN_FAILED,
                            "internal"));
    private static final double REFUSED = 172_800; // after an answer that stands until something is done

    private final double period; // between two rounds when all is well
    private final double look; // between two looks at the conditions
    private final double backoff; // after the first failure; doubles with each
    private final double longest; // whatever a coordinator or the backoff says

    /**
     * Another pace.
     *
     * @throws IllegalArgumentException a time that does not lie above 0.
     */
    public Pace(double period, double look, double backoff, double longest) {
        if (!(Math.min(Math.min(period, look), Math.min(backoff, longest)) > 0)) {
            throw new IllegalArgumentException("the times of a pace lie above 0");
        }
        this.period = period;
        this.look = look;
        this.backoff = backoff;
        this.longest = longest;
    }

    /** Does this count as a failure in a row? */
    public static boolean isTrouble(RoundReport report) {
        return TROUBLE.contains(report.blockedBy);
    }

    /**
     * Seconds until the next try. The coordinator's own wish comes first and is never cut short;
     * trouble doubles the delay; what was refused for good is asked again in days; {@code uniform} in [0, 1) spreads devices that were stopped by the
     * same thing.
     */
    public double nextDelay(RoundReport report, int failures, double uniform) {
        if (report.retryAfter != null) {
            return Math.min(Math.max(LEAST, report.retryAfter) * (1 + 0.1 * uniform), longest);
        }
        if (Eligibility.stands(report.blockedBy)) {
            return REFUSED * (0.5 + uniform);
        }
        if (isTrouble(report)) {
            double doubled = backoff * Math.pow(2.0, Math.min(Math.max(0, failures - 1), 30));
            return Math.min(doubled, longest) * (0.5 + 0.5 * uniform);
        }
        if (WAITING.contains(report.blockedBy)) {
            return Math.min(look, longest);
        }
        return Math.min(period * (0.9 + 0.2 * uniform), longest);
    }

    @Override
    public String toString() {
        return "Pace(" + period + ", " + look + ", " + backoff + ", " + longest + ")";
    }
}
