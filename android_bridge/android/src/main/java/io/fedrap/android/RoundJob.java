package io.fedrap.android;

import android.app.job.JobInfo;
import android.app.job.JobScheduler;
import android.content.ComponentName;
import android.content.Context;
import android.os.PersistableBundle;
import io.fedrap.core.Pace;
import io.fedrap.core.Eligibility;
import io.fedrap.core.RoundReport;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/**
 * The next round as the system's scheduler keeps it, which is the only place that knows when it is due
 * and how often it failed in a row.
 *
 * <p>Each run schedules the next one, under the other of two ids: scheduling the id that runs would
 * stop it, and scheduling after it has ended could be forgotten with the process.
 */
final class RoundJob {
    static final int FIRST = 0x0fed0001;
    static final int SECOND = 0x0fed0002;
    static final double LEAST = 900; // seconds between rounds: the system's own floor for repeated jobs

    private static final long FETCH_MILLIS = 4 * 3_600_000L; // where only releases are fetched

    private static final Pace PACE = new Pace(LEAST, LEAST, LEAST, 86_400);
    private static final String FAILURES = "failures";
    private static final String NOT_BEFORE = "not-before";
    private static final String SAID = "said";
    private static final String SAID_AT = "said-at";
    /** What time does not change, but the app, which schedules again. */
    private static final Set<String> ENDS =
            new HashSet<>(Arrays.asList(Eligibility.NO_CONSENT, Eligibility.OFFLINE, Eligibility.NO_SERVER));

    private final Context context;
    private final JobScheduler scheduler;

    RoundJob(Context context) {
        this.context = context.getApplicationContext();
        this.scheduler = context.getSystemService(JobScheduler.class);
    }

    /** What waits or runs; null where nothing does. */
    JobInfo pending() {
        JobInfo first = scheduler.getPendingJob(FIRST);
        return first != null ? first : scheduler.getPendingJob(SECOND);
    }

    /** Something waits or runs from now on. */
    boolean ensure() {
        return pending() != null || schedule(FIRST, 0, new PersistableBundle());
    }

    void cancel() {
        scheduler.cancel(FIRST);
        scheduler.cancel(SECOND);
    }

    /**
     * What follows from a run's report.
     *
     * @param fetching it did not train, but fetches releases
     */
    void follow(int running, RoundReport report, PersistableBundle before, boolean fetching) {
        if (fetching) {
            schedule(running == FIRST ? SECOND : FIRST, FETCH_MILLIS, new PersistableBundle());
            return;
        }
        if (ENDS.contains(report.blockedBy) || Eligibility.ALREADY_RUNNING.equals(report.blockedBy)) {
            return; // the run that was there already has its own next one
        }
        int failures = Pace.isTrouble(report) ? before.getInt(FAILURES) + 1 : 0;
        double delay = Math.max(LEAST, PACE.nextDelay(report, failures, Math.random()));
        PersistableBundle extras = new PersistableBundle();
        extras.putInt(FAILURES, failures);
        extras.putString(SAID, report.joined ? RoundStatus.JOINED : report.blockedBy);
        extras.putLong(SAID_AT, System.currentTimeMillis());
        long millis = (long) (1000 * delay);
        if (millis > FETCH_MILLIS) { // releases are fetched meanwhile
            extras.putLong(NOT_BEFORE, System.currentTimeMillis() + millis);
        }
        schedule(running == FIRST ? SECOND : FIRST, Math.min(FETCH_MILLIS, millis), extras);
    }

    /** Is it too early for a round, which was refused for long? */
    static boolean isEarly(PersistableBundle extras) {
        return extras.getLong(NOT_BEFORE) > System.currentTimeMillis();
    }

    /** Another look for a release, until it is time for a round. */
    void lookAgain(int running, PersistableBundle extras) {
        long left = extras.getLong(NOT_BEFORE) - System.currentTimeMillis();
        long delay = Math.max((long) (1000 * LEAST), Math.min(FETCH_MILLIS, left));
        schedule(running == FIRST ? SECOND : FIRST, delay, extras);
    }

    private boolean schedule(int id, long delayMillis, PersistableBundle extras) {
        JobInfo job =
                new JobInfo.Builder(id, new ComponentName(context, RoundJobService.class))
                        .setRequiredNetworkType(JobInfo.NETWORK_TYPE_UNMETERED)
                        .setRequiresCharging(true)
                        .setRequiresDeviceIdle(true)
                        .setMinimumLatency(delayMillis)
                        .setPersisted(true)
                        .setExtras(extras)
                        .build();
        return scheduler.schedule(job) == JobScheduler.RESULT_SUCCESS;
    }

    /** What the run before this job did; null before the first. */
    static String said(JobInfo job) {
        return job.getExtras().getString(SAID);
    }

    /** When it did, in milliseconds since 1970; 0 before the first. */
    static long saidAt(JobInfo job) {
        return job.getExtras().getLong(SAID_AT);
    }
}
