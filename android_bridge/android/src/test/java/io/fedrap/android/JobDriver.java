package io.fedrap.android;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import android.app.job.JobInfo;
import android.app.job.JobParameters;
import android.app.job.JobScheduler;
import android.content.Context;
import io.fedrap.core.FedRap;
import io.fedrap.core.LocalCoordinator;
import io.fedrap.core.Status;
import org.junit.rules.ExternalResource;
import org.robolectric.Robolectric;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.Shadows;
import org.robolectric.shadows.ShadowJobService;
import org.robolectric.util.ReflectionHelpers;

/** The system's part of a test: starts jobs as they are scheduled, beside a coordinator on a socket. */
final class JobDriver extends ExternalResource {
    Context context;
    JobScheduler scheduler;
    LocalCoordinator coordinator;

    @Override
    protected void before() throws Exception {
        TestKeystore.install();
        context = RuntimeEnvironment.getApplication();
        scheduler = context.getSystemService(JobScheduler.class);
        coordinator = new LocalCoordinator();
        TestApp.server = coordinator.url();
        TestApp.ERRORS.clear();
    }

    @Override
    protected void after() {
        restart();
        TestKeystore.uninstall();
        try {
            coordinator.close();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    /** A user who agreed and tapped twice. */
    FedRap consenting() {
        FedRap device = FedRapAndroid.open(context);
        device.consent(true, "v1");
        device.record("item-1");
        device.record("item-5");
        return device;
    }

    /** A new process: what was in memory is gone, files and the scheduler's jobs stay. */
    void restart() {
        FedRapAndroid.open(context).close();
    }

    static JobParameters parameters(JobInfo job) {
        JobParameters made = ReflectionHelpers.callConstructor(JobParameters.class);
        ReflectionHelpers.setField(made, "jobId", job.getId());
        ReflectionHelpers.setField(made, "extras", job.getExtras());
        return made;
    }

    /** The system starts this job, and waits until it says that it is finished. */
    ShadowJobService run(JobInfo job) throws InterruptedException {
        RoundJobService service = Robolectric.setupService(RoundJobService.class);
        assertTrue(service.onStartJob(parameters(job)));
        ShadowJobService shadow = finished(service);
        scheduler.cancel(job.getId()); // as the system does with one that has ended
        return shadow;
    }

    static ShadowJobService finished(RoundJobService service) throws InterruptedException {
        ShadowJobService shadow = Shadows.shadowOf(service);
        for (int tries = 0; !shadow.getIsJobFinished() && tries < 1000; tries++) {
            Thread.sleep(10);
        }
        assertTrue("the job ends", shadow.getIsJobFinished());
        return shadow;
    }

    JobInfo scheduled() {
        assertTrue(FedRapAndroid.schedule(context));
        return pending();
    }

    /** The one job that waits. */
    JobInfo pending() {
        assertEquals(1, scheduler.getAllPendingJobs().size());
        return scheduler.getAllPendingJobs().get(0);
    }

    Status status() {
        return FedRapAndroid.open(context).status();
    }
}
