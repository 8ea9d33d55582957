package io.fedrap.android;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import android.app.job.JobInfo;
import android.app.job.JobParameters;
import android.os.PersistableBundle;
import io.fedrap.core.FedRapException.Kind;
import io.fedrap.core.Eligibility;
import io.fedrap.core.FedRap;
import io.fedrap.core.RoundReport;
import io.fedrap.core.Status;
import java.io.File;
import java.util.Collections;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.Rule;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.Shadows;
import org.robolectric.annotation.Config;
import org.robolectric.util.ReflectionHelpers;

/** Rounds that are stopped, killed, forbidden or robbed of their key. */
@RunWith(RobolectricTestRunner.class)
@Config(application = TestApp.class)
public class RoundJobServiceTest {
    @Rule public final JobDriver phone = new JobDriver();

    @Test
    public void nothingIsSentBeforeConsentAndTheJobEnds() throws Exception {
        FedRapAndroid.open(phone.context).record("item-1");
        phone.run(phone.scheduled());
        assertEquals(Collections.emptyList(), phone.coordinator.asked());
        assertEquals(Collections.emptyList(), phone.scheduler.getAllPendingJobs());
        FedRapAndroid.open(phone.context).consent(true, "v1");
        phone.run(phone.scheduled());
        assertEquals(1, phone.status().rounds);
        FedRapAndroid.open(phone.context).consent(false, "v1");
        int before = phone.coordinator.asked().size();
        phone.run(phone.pending());
        assertEquals("consent taken back is heard", before, phone.coordinator.asked().size());
        assertEquals(Collections.emptyList(), phone.scheduler.getAllPendingJobs());
    }

    @Test
    public void whoDoesNotTrainHasReleasesFetchedAndIsAskedAgainInHours() throws Exception {
        FedRap device = FedRapAndroid.open(phone.context);
        device.record("item-1");
        device.consent(true, false, "v1");
        phone.run(phone.scheduled());
        assertEquals(3, device.recommend(3).size());
        assertFalse(phone.coordinator.asked().toString().contains("enrol"));
        assertFalse(phone.coordinator.asked().toString().contains("offers"));
        assertEquals(4 * 3_600_000L, phone.pending().getMinLatencyMillis());
    }

    @Test
    public void whatIsRefusedForDaysIsNotAskedForMeanwhile() throws Exception {
        android.os.PersistableBundle extras = new android.os.PersistableBundle();
        phone.consenting();
        JobInfo job = phone.scheduled();
        RoundReport spent = FedRapAndroid.open(phone.context).runRound(0, () -> "budget-spent");
        new RoundJob(phone.context).follow(job.getId(), spent, extras, false);
        phone.scheduler.cancel(job.getId());
        assertEquals(4 * 3_600_000L, phone.pending().getMinLatencyMillis());
        phone.run(phone.pending());
        assertFalse(phone.coordinator.asked().toString().contains("offers"));
        assertEquals(3, FedRapAndroid.open(phone.context).recommend(3).size());
        assertEquals(4 * 3_600_000L, phone.pending().getMinLatencyMillis());
    }

    @Test
    public void somebodyElseLogsIn() {
        FedRapAndroid.open(phone.context).record("item-1");
        FedRap first = FedRapAndroid.open(phone.context);
        FedRapAndroid.logOut();
        assertFalse(first.isOpen());
        assertEquals(1, FedRapAndroid.open(phone.context).status().interactions);
    }

    /** Stopped while this path waits for an answer; then run again. */
    private void stopDuring(String path) throws Exception {
        CountDownLatch asked = phone.coordinator.leaveWaiting(path);
        JobInfo job = phone.scheduled();
        RoundJobService service = Robolectric.setupService(RoundJobService.class);
        assertTrue(service.onStartJob(JobDriver.parameters(job)));
        assertTrue(asked.await(10, TimeUnit.SECONDS));
        assertTrue("to be run again", service.onStopJob(JobDriver.parameters(job)));
        phone.coordinator.honestAgain();
        for (int tries = 0; Eligibility.ALREADY_RUNNING.equals(probe()) && tries < 500; tries++) {
            Thread.sleep(10);
        }
        assertEquals("what hung was ended", Eligibility.METERED, probe());
        assertFalse("the system has it back", Shadows.shadowOf(service).getIsJobFinished());
        assertEquals("and keeps it", job, phone.pending());
    }

    private String probe() {
        return FedRapAndroid.open(phone.context).runRound(0, () -> Eligibility.METERED).blockedBy;
    }

    @Test
    public void stoppedBeforeAnythingWasChargedItStartsAgain() throws Exception {
        phone.consenting();
        stopDuring("/v1/offers");
        assertEquals(0, phone.status().rounds);
        phone.restart();
        phone.run(phone.pending());
        assertEquals(1, phone.status().rounds);
        assertEquals(1, phone.coordinator.count("/v1/rounds/"));
        assertEquals("enrolled once", 1, phone.coordinator.count("/v1/enrol"));
    }

    @Test
    public void stoppedWhileSendingItSendsTheSameAgainAndIsChargedOnce() throws Exception {
        phone.consenting();
        stopDuring("/v1/rounds/");
        assertEquals(1, phone.status().rounds);
        assertEquals(1, phone.status().pending);
        phone.restart();
        int offers = phone.coordinator.count("/v1/offers");
        phone.run(phone.pending());
        assertEquals(1, phone.status().rounds);
        assertEquals(0, phone.status().pending);
        assertEquals("no second place", offers, phone.coordinator.count("/v1/offers"));
        assertEquals(2, phone.coordinator.count("/v1/rounds/"));
    }

    @Test
    public void stoppedAtOnceItSendsNothing() throws Exception {
        phone.consenting();
        JobInfo job = phone.scheduled();
        RoundJobService service = Robolectric.setupService(RoundJobService.class);
        synchronized (FedRapAndroid.class) { // it waits to open the device
            service.onStartJob(JobDriver.parameters(job));
            assertTrue(service.onStopJob(JobDriver.parameters(job)));
        }
        Thread.sleep(200);
        assertEquals(Collections.emptyList(), phone.coordinator.asked());
        assertFalse("a job that never ran", service.onStopJob(JobDriver.parameters(job)));
    }

    @Test
    public void aDeviceThatWasRestartedIsTheSameDevice() throws Exception {
        phone.consenting();
        phone.run(phone.scheduled());
        File noBackup = phone.context.getNoBackupFilesDir();
        assertTrue(new File(noBackup, "fedrap/app").isDirectory());
        assertTrue(new File(noBackup, "fedrap.key").isFile());
        assertEquals(0, phone.context.getFilesDir().list().length);
        phone.restart();
        Status after = phone.status();
        assertTrue(after.enrolled && after.consented);
        assertEquals(2, after.interactions);
        assertEquals(1, after.rounds);
        assertNull(after.storeReset);
        assertTrue("kept by the system over a restart", phone.pending().isPersisted());
        phone.coordinator.nextRound(2);
        phone.run(phone.pending());
        assertEquals(2, phone.status().rounds);
        assertEquals("still the same one", 1, phone.coordinator.count("/v1/enrol"));
    }

    @Test
    public void aLostKeyIsAFreshStartThatIsReported() throws Exception {
        phone.consenting();
        phone.run(phone.scheduled());
        phone.restart();
        TestKeystore.loseKeys();
        Status after = phone.status(); // never throws
        assertEquals(Kind.STORE_LOCKED, after.storeReset.reason);
        assertFalse("consent went with the store", after.consented);
        assertEquals(0, after.interactions);
        assertEquals(1, TestApp.ERRORS.size());
        phone.restart();
        assertNotNull("it is remembered", phone.status().storeReset);
        assertEquals(1, TestApp.ERRORS.size());
        int before = phone.coordinator.asked().size();
        phone.run(phone.pending());
        assertEquals("and nothing is sent", before, phone.coordinator.asked().size());
        phone.consenting();
        phone.coordinator.nextRound(2);
        phone.run(phone.scheduled());
        assertEquals("a new device", 2, phone.coordinator.count("/v1/enrol"));
    }

    @Test
    public void twoRunsAtATimeAreOne() throws Exception {
        phone.consenting();
        CountDownLatch asked = phone.coordinator.leaveWaiting("/v1/offers");
        JobInfo job = phone.scheduled();
        RoundJobService service = Robolectric.setupService(RoundJobService.class);
        service.onStartJob(JobDriver.parameters(job));
        assertTrue(asked.await(10, TimeUnit.SECONDS));
        PersistableBundle none = new PersistableBundle();
        JobParameters other = JobDriver.parameters(job);
        ReflectionHelpers.setField(other, "jobId", RoundJob.SECOND);
        ReflectionHelpers.setField(other, "extras", none);
        RoundJobService second = Robolectric.setupService(RoundJobService.class);
        second.onStartJob(other);
        assertFalse(JobDriver.finished(second).getIsRescheduleNeeded());
        assertEquals("the first keeps its place", job, phone.pending());
        assertTrue(service.onStopJob(JobDriver.parameters(job)));
    }

}
