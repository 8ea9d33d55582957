package io.fedrap.android;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import android.app.job.JobInfo;
import android.net.ConnectivityManager;
import android.net.NetworkCapabilities;
import android.net.NetworkInfo;
import android.os.BatteryManager;
import android.os.PowerManager;
import io.fedrap.core.FedRap;
import io.fedrap.core.Eligibility;
import java.io.File;
import java.util.Collections;
import org.junit.Rule;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.Shadows;
import org.robolectric.annotation.Config;
import org.robolectric.shadows.ShadowNetworkInfo;

/** When the system is asked for the next round, and what an app is told. */
@RunWith(RobolectricTestRunner.class)
@Config(application = TestApp.class)
public class RoundJobTest {
    @Rule public final JobDriver phone = new JobDriver();

    @Test
    public void theJobWantsAFreeNetworkPowerAndIdlenessAndOutlivesRestarts() {
        JobInfo job = phone.scheduled();
        assertTrue(job.getRequiredNetwork().hasCapability(NetworkCapabilities.NET_CAPABILITY_NOT_METERED));
        assertTrue(job.isRequireCharging());
        assertTrue(job.isRequireDeviceIdle());
        assertTrue(job.isPersisted());
        assertFalse(job.isPeriodic());
        assertEquals(RoundJobService.class.getName(), job.getService().getClassName());
        assertTrue("scheduling twice is scheduling once", FedRapAndroid.schedule(phone.context));
        assertEquals(job, phone.pending());
        FedRapAndroid.cancel(phone.context);
        assertEquals(Collections.emptyList(), phone.scheduler.getAllPendingJobs());
    }

    @Test
    public void aRoundIsJoinedOffTheMainThreadAndTheNextOneIsScheduled() throws Exception {
        phone.consenting();
        JobInfo job = phone.scheduled();
        assertFalse(phone.run(job).getIsRescheduleNeeded());
        assertEquals(1, phone.coordinator.count("/v1/rounds/"));
        assertEquals(1, phone.status().rounds);
        JobInfo next = phone.pending();
        assertTrue(next.getMinLatencyMillis() >= 900_000);
        assertTrue(next.isRequireCharging() && next.isRequireDeviceIdle() && next.isPersisted());
        assertTrue("the id that runs is not scheduled", next.getId() != job.getId());
        assertEquals(RoundStatus.JOINED, FedRapAndroid.status(phone.context).lastSaid);
        phone.run(next);
        assertEquals(job.getId(), phone.pending().getId());
    }

    @Test
    public void thePaceOfTheServerIsObeyed() throws Exception {
        phone.consenting();
        phone.coordinator.refuse("/v1/offers", "no-round", 7200);
        phone.run(phone.scheduled());
        JobInfo next = phone.pending();
        assertTrue("" + next.getMinLatencyMillis(), next.getMinLatencyMillis() >= 7_200_000);
        assertTrue("" + next.getMinLatencyMillis(), next.getMinLatencyMillis() <= 7_920_000);
        RoundStatus told = FedRapAndroid.status(phone.context);
        assertEquals("no-round", told.lastSaid);
        assertEquals(Eligibility.TOLD_TO_WAIT, told.blockedBy);
        assertTrue(told.notBefore >= System.currentTimeMillis() + 7_100_000);

        phone.coordinator.honestAgain();
        int before = phone.coordinator.asked().size();
        phone.run(next); // a scheduler that is too early
        assertEquals("nobody is asked before the time", before, phone.coordinator.asked().size());
        assertTrue(phone.pending().getMinLatencyMillis() >= 7_000_000);
    }

    @Test
    public void aServerInAHurryWaitsForTheLeastTheSystemAllows() throws Exception {
        phone.consenting();
        phone.coordinator.refuse("/v1/offers", "no-round", 1);
        phone.run(phone.scheduled());
        assertEquals(900_000, phone.pending().getMinLatencyMillis());
    }

    @Test
    public void silenceBacksOffFurtherEachTime() throws Exception {
        phone.consenting();
        phone.coordinator.hangUp("/v1/");
        JobInfo job = phone.scheduled();
        long[] least = {900_000, 900_000, 1_800_000, 3_600_000};
        for (long one : least) {
            phone.run(job);
            job = phone.pending();
            assertTrue(job.getMinLatencyMillis() + " at least " + one, job.getMinLatencyMillis() >= one);
        }
        assertEquals(Eligibility.UNREACHABLE, FedRapAndroid.status(phone.context).lastSaid);
        phone.coordinator.honestAgain();
        phone.run(job);
        job = phone.pending();
        phone.coordinator.hangUp("/v1/");
        phone.coordinator.nextRound(2);
        phone.run(job);
        assertEquals("what went well counts anew", 900_000, phone.pending().getMinLatencyMillis(), 0);
    }

    @Test
    public void statusSaysWhyNoRoundRuns() {
        FedRap device = FedRapAndroid.open(phone.context);
        assertEquals(Eligibility.NO_CONSENT, FedRapAndroid.status(phone.context).blockedBy);
        device.consent(true, "v1");
        assertEquals(Eligibility.NOTHING_TO_SHARE, FedRapAndroid.status(phone.context).blockedBy);
        device.record("item-1");
        assertEquals(RoundStatus.NOT_SCHEDULED, FedRapAndroid.status(phone.context).blockedBy);
        phone.scheduled();
        RoundStatus now = FedRapAndroid.status(phone.context);
        assertTrue(now.scheduled);
        assertNull(now.lastSaid);
        assertNull(now.notBefore);
        BatteryManager battery = phone.context.getSystemService(BatteryManager.class);
        PowerManager power = phone.context.getSystemService(PowerManager.class);
        onMobile(true);
        assertEquals(Eligibility.METERED, FedRapAndroid.status(phone.context).blockedBy);
        onMobile(false);
        Shadows.shadowOf(battery).setIsCharging(false);
        assertEquals(Eligibility.NOT_CHARGING, FedRapAndroid.status(phone.context).blockedBy);
        Shadows.shadowOf(battery).setIsCharging(true);
        Shadows.shadowOf(power).turnScreenOn(true);
        assertEquals(Eligibility.NOT_IDLE, FedRapAndroid.status(phone.context).blockedBy);
        Shadows.shadowOf(power).turnScreenOn(false);
        assertNull(FedRapAndroid.status(phone.context).blockedBy);
    }

    @SuppressWarnings("deprecation") // what Robolectric has for a network
    private void onMobile(boolean mobile) {
        int type = mobile ? ConnectivityManager.TYPE_MOBILE : ConnectivityManager.TYPE_WIFI;
        NetworkInfo info =
                ShadowNetworkInfo.newInstance(
                        NetworkInfo.DetailedState.CONNECTED, type, 0, true, NetworkInfo.State.CONNECTED);
        Shadows.shadowOf(phone.context.getSystemService(ConnectivityManager.class)).setActiveNetworkInfo(info);
    }

    @Test
    public void whatWaitsForTheNetworkIsRefusedOnTheMainThread() throws Exception {
        assertThrows(IllegalStateException.class, () -> FedRapAndroid.runOnce(phone.context));
        assertThrows(IllegalStateException.class, () -> FedRapAndroid.erase(phone.context));
        phone.consenting();
        phone.scheduled();
        Object[] done = new Object[2];
        Thread worker =
                new Thread(
                        () -> {
                            done[0] = FedRapAndroid.runOnce(phone.context).joined;
                            done[1] = FedRapAndroid.erase(phone.context).deleted.contains("key");
                        });
        worker.start();
        worker.join();
        assertEquals(true, done[0]);
        assertEquals(true, done[1]);
        assertEquals(Collections.emptyList(), phone.scheduler.getAllPendingJobs());
        assertFalse(new File(phone.context.getNoBackupFilesDir(), "fedrap.key").exists());
        assertNull(TestKeystore.entry(KeystoreWrap.ALIAS));
        assertEquals("and it starts anew", 0, phone.status().interactions);
    }
}
