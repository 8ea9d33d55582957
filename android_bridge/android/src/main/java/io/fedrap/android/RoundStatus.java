package io.fedrap.android;

import android.app.job.JobInfo;
import android.content.Context;
import android.net.ConnectivityManager;
import android.os.BatteryManager;
import android.os.PowerManager;
import io.fedrap.core.Eligibility;
import io.fedrap.core.Status;

/** Where a device stands, and why no round runs on it. */
public final class RoundStatus {
    /** A reason of {@link #blockedBy} beside those of {@link Eligibility}. */
    public static final String NOT_SCHEDULED = "not-scheduled";

    /** What {@link #lastSaid} is when a round was joined. */
    public static final String JOINED = "joined";

    /** The device itself: consent, releases, rounds, and whether its store was started afresh. */
    public final Status device;

    /** A job waits or runs. */
    public final boolean scheduled;

    /**
     * The first thing that stands in the way of a round: a word of {@link Eligibility} or
     * {@link #NOT_SCHEDULED}; null when the system may run one as soon as it likes. The screen being
     * off is not yet what the system calls idle: that takes about an hour.
     */
    public final String blockedBy;

    /** Milliseconds since 1970, before which the system runs no round; null where nobody said. */
    public final Long notBefore;

    /** What the last background round did: {@link #JOINED}, or why not; null where there was none. */
    public final String lastSaid;

    /** Milliseconds since 1970; null where there was none. */
    public final Long lastAt;

    RoundStatus(Context context, Status device, JobInfo job) {
        this.device = device;
        this.scheduled = job != null;
        this.lastSaid = job == null ? null : RoundJob.said(job);
        this.lastAt = lastSaid == null ? null : (Long) RoundJob.saidAt(job);
        this.notBefore = lastSaid == null ? null : (Long) (lastAt + job.getMinLatencyMillis());
        this.blockedBy = why(context);
    }

    private String why(Context context) {
        if (device.blockedBy != null) {
            return device.blockedBy;
        }
        if (!scheduled) {
            return NOT_SCHEDULED;
        }
        if (context.getSystemService(ConnectivityManager.class).isActiveNetworkMetered()) {
            return Eligibility.METERED;
        }
        if (!context.getSystemService(BatteryManager.class).isCharging()) {
            return Eligibility.NOT_CHARGING;
        }
        return context.getSystemService(PowerManager.class).isInteractive() ? Eligibility.NOT_IDLE : null;
    }
}
