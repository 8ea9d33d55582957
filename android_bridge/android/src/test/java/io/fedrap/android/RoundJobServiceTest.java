package io.fedrap.android;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import android.app.job.JobInfo;
import android.app.job.JobParameters;
import android.app.job.JobScheduler;
import android.content.Context;
import android.net.ConnectivityManager;
import android.net.NetworkCapabilities;
import android.net.NetworkInfo;
import android.os.BatteryManager;
import android.os.PersistableBundle;
import android.os.PowerManager;
import io.fedrap.core.FedRap;
import io.fedrap.core.FedRapException.Kind;
import io.fedrap.core.LocalCoordinator;
import io.fedrap.core.Policy;
import io.fedrap.core.Status;
import java.io.File;
import java.util.Collections;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.Shadows;
import org.robolectric.annotation.Config;
import org.robolectric.shadows.ShadowJobService;
import org.robolectric.shadows.ShadowNetworkInfo;
import org.robolectric.util.ReflectionHelpers;

/** The job as the system drives it, beside a coordinator on a real socket. */
@RunWith(RobolectricTestRunner.class)
@Config(application = TestApp.class)
public class RoundJobServiceTest {
    private Context context;
    private JobScheduler scheduler;
    private LocalCoordinator coordinator;

    @Before
    public void open() throws Exception {
        TestKeystore.install();
        context = RuntimeEnvironment.getApplication();
        scheduler = context.getSystemService(JobScheduler.class);
        coordinator = new LocalCoordinator();
        TestApp.server = coordinator.url();
        TestApp.offline = false;
        TestApp.HEARD.clear();
    }

    @After
    public void close() throws Exception {
        FedRapAndroid.open(context).close();
        coordinator.close();
        TestKeystore.uninstall();
    }

    private FedRap consenting() {
        FedRap device = FedRapAndroid.open(context);
        device.consent(true, "v1");
        device.record("item-1");
        device.record("item-5");
        return device;
    }

    /** A new process: what was in memory is gone, files and the scheduler's jobs stay. */
    private void restart() {
        FedRapAndroid.open(context).close();
    }

    private static JobParameters parameters(JobInfo job) {
        JobParameters made = ReflectionHelpers.callConstructor(JobParameters.class);
        ReflectionHelpers.setField(made, "jobId", job.getId());
        ReflectionHelpers.setField(made, "extras", job.getExtras());
        return made;
    }

    /** The system starts this job, and waits until it says that it is finished. */
    private ShadowJobService run(JobInfo job) throws Exception {
        RoundJobService service = Robolectric.setupService(RoundJobService.class);
        assertTrue(service.onStartJob(parameters(job)));
        ShadowJobService shadow = Shadows.shadowOf(service);
        for (int tries = 0; !shadow.getIsJobFinished() && tries < 1000; tries++) {
            Thread.sleep(10);
        }
        assertTrue("the job ends", shadow.getIsJobFinished());
        scheduler.cancel(job.getId()); // as the system does with one that has ended
        return shadow;
    }

    private JobInfo scheduled() {
        assertTrue(FedRapAndroid.schedule(context));
        return pending();
    }

    private JobInfo pending() {
        assertEquals(1, scheduler.getAllPendingJobs().size());
        return scheduler.getAllPendingJobs().get(0);
    }

    private Status status() {
        return FedRapAndroid.open(context).status();
    }

    @Test
    public void theJobWantsAFreeNetworkPowerAndIdlenessAndOutlivesRestarts() {
        JobInfo job = scheduled();
        assertTrue(job.getRequiredNetwork().hasCapability(NetworkCapabilities.NET_CAPABILITY_NOT_METERED));
        assertTrue(job.isRequireCharging());
        assertTrue(job.isRequireDeviceIdle());
        assertTrue(job.isPersisted());
        assertFalse(job.isPeriodic());
        assertEquals(RoundJobService.class.getName(), job.getService().getClassName());
        assertTrue("scheduling twice is scheduling once", FedRapAndroid.schedule(context));
        assertEquals(job, pending());
        FedRapAndroid.cancel(context);
        assertEquals(Collections.emptyList(), scheduler.getAllPendingJobs());
    }

    @Test
    public void aRoundIsJoinedOffTheMainThreadAndTheNextOneIsScheduled() throws Exception {
        consenting();
        JobInfo job = scheduled();
        assertFalse(run(job).getIsRescheduleNeeded());
        assertEquals(1, coordinator.count("/v1/rounds/"));
        assertEquals(1, status().rounds);
        JobInfo next = pending();
        assertTrue(next.getMinLatencyMillis() >= 900_000);
        assertTrue(next.isRequireCharging() && next.isRequireDeviceIdle() && next.isPersisted());
        assertTrue("the id that runs is not scheduled", next.getId() != job.getId());
        assertEquals(RoundStatus.JOINED, FedRapAndroid.status(context).lastSaid);
        run(next);
        assertEquals(job.getId(), pending().getId());
    }

    @Test
    public void nothingIsSentBeforeConsentAndTheJobEnds() throws Exception {
        FedRapAndroid.open(context).record("item-1");
        run(scheduled());
        assertEquals(Collections.emptyList(), coordinator.asked());
        assertEquals(Collections.emptyList(), scheduler.getAllPendingJobs());
        FedRapAndroid.open(context).consent(true, "v1");
        run(scheduled());
        assertEquals(1, status().rounds);
        FedRapAndroid.open(context).consent(false, "v1");
        int before = coordinator.asked().size();
        run(pending());
        assertEquals("consent taken back is heard", before, coordinator.asked().size());
        assertEquals(Collections.emptyList(), scheduler.getAllPendingJobs());
    }

    @Test
    public void thePaceOfTheServerIsObeyed() throws Exception {
        consenting();
        coordinator.refuse("/v1/offers", "no-round", 7200);
        run(scheduled());
        JobInfo next = pending();
        assertTrue("" + next.getMinLatencyMillis(), next.getMinLatencyMillis() >= 7_200_000);
        assertTrue("" + next.getMinLatencyMillis(), next.getMinLatencyMillis() <= 7_920_000);
        RoundStatus told = FedRapAndroid.status(context);
        assertEquals("no-round", told.lastSaid);
        assertEquals(Policy.TOLD_TO_WAIT, told.blockedBy);
        assertTrue(told.notBefore >= System.currentTimeMillis() + 7_100_000);

        coordinator.honestAgain();
        int before = coordinator.asked().size();
        run(next); // a scheduler that is too early
        assertEquals("nobody is asked before the time", before, coordinator.asked().size());
        assertTrue(pending().getMinLatencyMillis() >= 7_000_000);
    }

    @Test
    public void aServerInAHurryWaitsForTheLeastTheSystemAllows() throws Exception {
        consenting();
        coordinator.refuse("/v1/offers", "no-round", 1);
        run(scheduled());
        assertEquals(900_000, pending().getMinLatencyMillis());
    }

    @Test
    public void silenceBacksOffFurtherEachTime() throws Exception {
        consenting();
        coordinator.hangUp("/v1/");
        JobInfo job = scheduled();
        long[] least = {900_000, 900_000, 1_800_000, 3_600_000};
        for (long one : least) {
            run(job);
            job = pending();
            assertTrue(job.getMinLatencyMillis() + " at least " + one, job.getMinLatencyMillis() >= one);
        }
        assertEquals(Policy.UNREACHABLE, FedRapAndroid.status(context).lastSaid);
        coordinator.honestAgain();
        run(job);
        job = pending();
        coordinator.hangUp("/v1/");
        coordinator.nextRound(2);
        run(job);
        assertEquals("what went well counts anew", 900_000, pending().getMinLatencyMillis(), 0);
    }

    /** Stopped while this path waits for an answer; then run again. */
    private void stopDuring(String path) throws Exception {
        CountDownLatch asked = coordinator.leaveWaiting(path);
        JobInfo job = scheduled();
        RoundJobService service = Robolectric.setupService(RoundJobService.class);
        assertTrue(service.onStartJob(parameters(job)));
        assertTrue(asked.await(10, TimeUnit.SECONDS));
        assertTrue("to be run again", service.onStopJob(parameters(job)));
        coordinator.honestAgain();
        for (int tries = 0; tries < 500; tries++) {
            if (!Policy.ALREADY_RUNNING.equals(probe())) {
                break;
            }
            Thread.sleep(10);
        }
        assertFalse("the system has it back", Shadows.shadowOf(service).getIsJobFinished());
        assertEquals("and keeps it", job, pending());
    }

    private String probe() {
        return FedRapAndroid.open(context).runRound(0, () -> Policy.METERED).blockedBy;
    }

    @Test
    public void stoppedBeforeAnythingWasChargedItStartsAgain() throws Exception {
        consenting();
        stopDuring("/v1/offers");
        assertEquals(0, status().rounds);
        restart();
        run(pending());
        assertEquals(1, status().rounds);
        assertEquals(1, coordinator.count("/v1/rounds/"));
        assertEquals("enrolled once", 1, coordinator.count("/v1/enrol"));
    }

    @Test
    public void stoppedWhileSendingItSendsTheSameAgainAndIsChargedOnce() throws Exception {
        consenting();
        stopDuring("/v1/rounds/");
        assertEquals(1, status().rounds);
        assertEquals(1, status().pending);
        restart();
        int offers = coordinator.count("/v1/offers");
        run(pending());
        assertEquals(1, status().rounds);
        assertEquals(0, status().pending);
        assertEquals("no second place", offers, coordinator.count("/v1/offers"));
        assertEquals(2, coordinator.count("/v1/rounds/"));
    }

    @Test
    public void stoppedAtOnceItSendsNothing() throws Exception {
        consenting();
        JobInfo job = scheduled();
        RoundJobService service = Robolectric.setupService(RoundJobService.class);
        synchronized (FedRapAndroid.class) { // it waits to open the device
            service.onStartJob(parameters(job));
            assertTrue(service.onStopJob(parameters(job)));
        }
        Thread.sleep(200);
        assertEquals(Collections.emptyList(), coordinator.asked());
        assertFalse("a job that never ran", service.onStopJob(parameters(job)));
    }

    @Test
    public void aDeviceThatWasRestartedIsTheSameDevice() throws Exception {
        consenting();
        run(scheduled());
        File noBackup = context.getNoBackupFilesDir();
        assertTrue(new File(noBackup, "fedrap/app").isDirectory());
        assertTrue(new File(noBackup, "fedrap.key").isFile());
        assertEquals(0, context.getFilesDir().list().length);
        restart();
        Status after = status();
        assertTrue(after.enrolled && after.consented);
        assertEquals(2, after.interactions);
        assertEquals(1, after.rounds);
        assertNull(after.storeReset);
        assertTrue("kept by the system over a restart", pending().isPersisted());
        coordinator.nextRound(2);
        run(pending());
        assertEquals(2, status().rounds);
        assertEquals("still the same one", 1, coordinator.count("/v1/enrol"));
    }

    @Test
    public void aLostKeyIsAFreshStartThatIsReported() throws Exception {
        consenting();
        run(scheduled());
        restart();
        TestKeystore.loseKeys();
        Status after = status(); // never throws
        assertEquals(Kind.STORE_LOCKED, after.storeReset.reason);
        assertFalse("consent went with the store", after.consented);
        assertEquals(0, after.interactions);
        assertEquals(1, TestApp.HEARD.size());
        restart();
        assertNotNull("it is remembered", status().storeReset);
        assertEquals(1, TestApp.HEARD.size());
        int before = coordinator.asked().size();
        run(pending());
        assertEquals("and nothing is sent", before, coordinator.asked().size());
        consenting();
        coordinator.nextRound(2);
        run(scheduled());
        assertEquals("a new device", 2, coordinator.count("/v1/enrol"));
    }

    @Test
    public void statusSaysWhyNoRoundRuns() {
        FedRap device = FedRapAndroid.open(context);
        assertEquals(Policy.NO_CONSENT, FedRapAndroid.status(context).blockedBy);
        device.consent(true, "v1");
        assertEquals(Policy.NOTHING_TO_SHARE, FedRapAndroid.status(context).blockedBy);
        device.record("item-1");
        assertEquals(RoundStatus.NOT_SCHEDULED, FedRapAndroid.status(context).blockedBy);
        scheduled();
        RoundStatus now = FedRapAndroid.status(context);
        assertTrue(now.scheduled);
        assertNull(now.lastSaid);
        assertNull(now.notBefore);
        BatteryManager battery = context.getSystemService(BatteryManager.class);
        PowerManager power = context.getSystemService(PowerManager.class);
        onMobile(true);
        assertEquals(Policy.METERED, FedRapAndroid.status(context).blockedBy);
        onMobile(false);
        Shadows.shadowOf(battery).setIsCharging(false);
        assertEquals(Policy.NOT_CHARGING, FedRapAndroid.status(context).blockedBy);
        Shadows.shadowOf(battery).setIsCharging(true);
        Shadows.shadowOf(power).turnScreenOn(true);
        assertEquals(Policy.NOT_IDLE, FedRapAndroid.status(context).blockedBy);
        Shadows.shadowOf(power).turnScreenOn(false);
        assertNull(FedRapAndroid.status(context).blockedBy);
    }

    @SuppressWarnings("deprecation") // what Robolectric has for a network
    private void onMobile(boolean mobile) {
        int type = mobile ? ConnectivityManager.TYPE_MOBILE : ConnectivityManager.TYPE_WIFI;
        NetworkInfo info =
                ShadowNetworkInfo.newInstance(
                        NetworkInfo.DetailedState.CONNECTED, type, 0, true, NetworkInfo.State.CONNECTED);
        Shadows.shadowOf(context.getSystemService(ConnectivityManager.class)).setActiveNetworkInfo(info);
    }

    @Test
    public void twoRunsAtATimeAreOne() throws Exception {
        consenting();
        CountDownLatch asked = coordinator.leaveWaiting("/v1/offers");
        JobInfo job = scheduled();
        RoundJobService service = Robolectric.setupService(RoundJobService.class);
        service.onStartJob(parameters(job));
        assertTrue(asked.await(10, TimeUnit.SECONDS));
        PersistableBundle none = new PersistableBundle();
        JobParameters other = parameters(job);
        ReflectionHelpers.setField(other, "jobId", RoundJob.SECOND);
        ReflectionHelpers.setField(other, "extras", none);
        RoundJobService second = Robolectric.setupService(RoundJobService.class);
        second.onStartJob(other);
        for (int tries = 0; !Shadows.shadowOf(second).getIsJobFinished() && tries < 1000; tries++) {
            Thread.sleep(10);
        }
        assertFalse(Shadows.shadowOf(second).getIsRescheduleNeeded());
        assertEquals("the first keeps its place", job, pending());
        assertTrue(service.onStopJob(parameters(job)));
    }

    @Test
    public void whatWaitsForTheNetworkIsRefusedOnTheMainThread() throws Exception {
        assertThrows(IllegalStateException.class, () -> FedRapAndroid.runOnce(context));
        assertThrows(IllegalStateException.class, () -> FedRapAndroid.erase(context));
        consenting();
        scheduled();
        Object[] done = new Object[2];
        Thread worker =
                new Thread(
                        () -> {
                            done[0] = FedRapAndroid.runOnce(context).joined;
                            done[1] = FedRapAndroid.erase(context).deleted.contains("key");
                        });
        worker.start();
        worker.join();
        assertEquals(true, done[0]);
        assertEquals(true, done[1]);
        assertEquals(Collections.emptyList(), scheduler.getAllPendingJobs());
        assertFalse(new File(context.getNoBackupFilesDir(), "fedrap.key").exists());
        assertNull(TestKeystore.entry(KeystoreWrap.ALIAS));
        assertEquals("and it starts anew", 0, status().interactions);
    }
}
