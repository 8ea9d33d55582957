package io.fedrap.core;

/**
 * The old name of {@link Eligibility}.
 *
 * @deprecated since 0.2, gone with 0.3.
 */
@Deprecated
public final class Policy {
    public static final String NO_CONSENT = Eligibility.NO_CONSENT;
    public static final String OFFLINE = Eligibility.OFFLINE;
    public static final String NO_SERVER = Eligibility.NO_SERVER;
    public static final String NO_TOKEN = Eligibility.NO_TOKEN;
    public static final String NOTHING_TO_SHARE = Eligibility.NOTHING_TO_SHARE;
    public static final String ALREADY_IN_ROUND = Eligibility.ALREADY_IN_ROUND;
    public static final String TOLD_TO_WAIT = Eligibility.TOLD_TO_WAIT;
    public static final String UNREACHABLE = Eligibility.UNREACHABLE;
    public static final String NO_RELEASE = Eligibility.NO_RELEASE;
    public static final String BROKEN_RELEASE = Eligibility.BROKEN_RELEASE;
    public static final String UNSUPPORTED_METHOD = Eligibility.UNSUPPORTED_METHOD;
    public static final String ALREADY_RUNNING = Eligibility.ALREADY_RUNNING;
    public static final String STOPPED = Eligibility.STOPPED;
    public static final String NOT_CHARGING = Eligibility.NOT_CHARGING;
    public static final String METERED = Eligibility.METERED;
    public static final String NOT_IDLE = Eligibility.NOT_IDLE;
    public static final String LOW_BATTERY = Eligibility.LOW_BATTERY;

    private Policy() {}
}
