package io.fedrap.core;

/** May this device join a round now, and if not, why? A word for each reason, as in Python. */
public final class Eligibility {
    public static final String NO_CONSENT = "no-consent";
    public static final String OFFLINE = "offline";
    public static final String NO_SERVER = "no-server";
    public static final String NO_TOKEN = "no-token";
    /** The app's own source of tokens threw, or gave none; the listener gets it. */
    public static final String TOKEN_FAILED = "token-failed";
    /** The ledger could not be read, so what was spent is not known. */
    public static final String LEDGER_LOST = "ledger-lost";
    public static final String NOTHING_TO_SHARE = "nothing-to-share";
    /** What this device had to give is there. */
    public static final String ALREADY_IN_ROUND = "already-in-round";
    public static final String TOLD_TO_WAIT = "told-to-wait";
    public static final String UNREACHABLE = "unreachable";
    public static final String NO_RELEASE = "no-release";
    public static final String BROKEN_RELEASE = "broken-release";
    /** The coordinator names another authority than the app pins. */
    public static final String ANOTHER_AUTHORITY = "another-authority";
    /** One server where the app wants two, or two for one. */
    public static final String ANOTHER_AGGREGATION = "another-aggregation";
    /** The second server is not the one that the app pins. */
    public static final String ANOTHER_HELPER = "another-helper";
    /** What came is not what the task's authority signed. */
    public static final String NOT_SIGNED = "not-signed";
    /** A release that does not follow from the one in use. */
    public static final String FORKED_RELEASE = "forked-release";
    /** Of a step that was released. */
    public static final String OLD_OFFER = "old-offer";
    /** A plan or a release of a method that this library does not compute. */
    public static final String UNSUPPORTED_METHOD = "unsupported-method";
    /** It guarantees less than the one agreed to; waits for {@code consent}. */
    public static final String POLICY_CHANGED = "policy-changed";
    /** The numbers of a round were not finite, and it was dropped. */
    public static final String DIVERGED = "diverged";
    public static final String ALREADY_RUNNING = "already-running";
    /** {@code stop()} or {@code close()} cut it short; it resumes where it was. */
    public static final String STOPPED = "stopped";
    public static final String NOT_CHARGING = "not-charging";
    public static final String METERED = "metered";
    public static final String NOT_IDLE = "not-idle";
    public static final String LOW_BATTERY = "low-battery";

    private Eligibility() {}

    /** Does this answer stand until somebody does something? It is asked again in days. */
    static boolean stands(String word) {
        boolean lasting =
                "budget-spent".equals(word) || "task-over".equals(word) || "bad-signature".equals(word);
        return lasting || Problem.familyOf(word) == Problem.Family.OPERATOR;
    }

    /** The first reason that stands in the way, in the order a developer would want to fix it. */
    static String blockedBy(
            boolean consented,
            boolean offline,
            boolean reachable,
            boolean mayEnrol,
            int interactions,
            double waitSeconds,
            boolean ledgerLost) {
        if (!consented) {
            return NO_CONSENT;
        }
        if (ledgerLost) {
            return LEDGER_LOST;
        }
        if (offline) {
            return OFFLINE;
        }
        if (!reachable) {
            return NO_SERVER;
        }
        if (!mayEnrol) {
            return NO_TOKEN;
        }
        if (interactions == 0) {
            return NOTHING_TO_SHARE;
        }
        return waitSeconds > 0 ? TOLD_TO_WAIT : null;
    }
}
