package io.fedrap.android;

import android.app.job.JobParameters;
import android.app.job.JobService;
import android.util.Log;
import android.util.SparseArray;
import io.fedrap.core.FedRap;
import io.fedrap.core.FedRapException;
import io.fedrap.core.Eligibility;
import io.fedrap.core.RoundReport;

/**
 * Runs a round when the system finds the device charging, idle and on an unmetered network; in the
 * manifest of this library. Stopped half-way or killed, the round resumes from the store another time
 * and is charged once.
 */
public final class RoundJobService extends JobService {
    private static final String TAG = "fedrap";

    private final SparseArray<Run> runs = new SparseArray<>(); // by id; on the main thread

    @Override
    public boolean onStartJob(JobParameters parameters) {
        Run run = new Run(parameters);
        runs.put(parameters.getJobId(), run);
        new Thread(run, "fedrap-round").start();
        return true;
    }

    /** The system wants the device back: again when its conditions hold again. */
    @Override
    public boolean onStopJob(JobParameters parameters) {
        Run run = runs.get(parameters.getJobId());
        runs.remove(parameters.getJobId());
        return run != null && run.stop();
    }

    /** One run of the job, in a thread of its own; either it ends or it is stopped. */
    private final class Run implements Runnable {
        private final JobParameters parameters;
        private FedRap device;
        private boolean stopped;
        private boolean ended;
        private boolean fetching; // without training
        private boolean early; // for a round

        Run(JobParameters parameters) {
            this.parameters = parameters;
        }

        @Override
        public void run() {
            try {
                FedRap opened = FedRapAndroid.open(RoundJobService.this);
                begin(opened);
                if (RoundJob.isEarly(parameters.getExtras())) {
                    refresh(opened);
                    early = true;
                    end(null, false);
                    return;
                }
                RoundReport report = opened.runRound(0, () -> isStopped() ? Eligibility.STOPPED : null);
                if (Eligibility.NO_CONSENT.equals(report.blockedBy)) {
                    refresh(opened);
                } else if (!isStopped()) {
                    opened.answerQuestions(); // as far as the user agreed to that
                }
                end(report, false);
            } catch (FedRapException error) { // a full disk, say: the system tries again, ever later
                Log.w(TAG, "no round: " + error.getMessage());
                end(null, true);
            } catch (RuntimeException error) { // the app's own, such as its Setup
                Log.e(TAG, "no more rounds until they are scheduled again", error);
                end(null, false);
            }
        }

        /** Who does not train is to have new releases too, as far as the user lets them be fetched. */
        private void refresh(FedRap opened) {
            try {
                fetching = Boolean.TRUE.equals(opened.status().fetching);
                opened.sync();
            } catch (FedRapException error) {
                Log.w(TAG, "no release: " + error.getMessage());
            }
        }

        private synchronized void begin(FedRap opened) {
            device = opened;
        }

        private synchronized boolean isStopped() {
            return stopped;
        }

        private synchronized void end(RoundReport report, boolean again) {
            if (stopped) {
                return; // the system has the job back already
            }
            ended = true;
            if (early) {
                new RoundJob(RoundJobService.this)
                        .lookAgain(parameters.getJobId(), parameters.getExtras());
            } else if (report != null) {
                new RoundJob(RoundJobService.this)
                        .follow(parameters.getJobId(), report, parameters.getExtras(), fetching);
            }
            jobFinished(parameters, again);
        }

        /** False where it had ended. */
        synchronized boolean stop() {
            stopped = !ended;
            if (stopped && device != null) {
                device.stop();
            }
            return stopped;
        }
    }
}
