package io.fedrap.sample;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import android.app.job.JobScheduler;
import android.content.Context;
import android.os.Looper;
import io.fedrap.android.FedRapAndroid;
import io.fedrap.core.LocalCoordinator;
import io.fedrap.core.Eligibility;
import java.util.Collections;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.Shadows;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;
import org.robolectric.shadows.ShadowLog;

/** The sample as a user has it in the hand, and the lines of the quickstart. */
@RunWith(RobolectricTestRunner.class)
@Config(application = LocalShop.class)
public class SampleAppTest {
    private Context context;
    private LocalCoordinator coordinator;

    @Before
    public void serve() throws Exception {
        context = RuntimeEnvironment.getApplication();
        coordinator = new LocalCoordinator();
        LocalShop.server = coordinator.url();
    }

    @After
    public void close() throws Exception {
        FedRapAndroid.open(context).close();
        coordinator.close();
    }

    private interface Sight {
        boolean seen();
    }

    /** What a user sees in the end; the work is done in another thread. */
    private static void sees(Sight sight) throws InterruptedException {
        for (int tries = 0; !sight.seen() && tries < 500; tries++) {
            Shadows.shadowOf(Looper.getMainLooper()).idle();
            Thread.sleep(10);
        }
        assertTrue(sight.seen());
    }

    @Test
    public void aUserAgreesTapsAndIsRecommendedTo() throws Exception {
        ActivityController<MainActivity> screen = Robolectric.buildActivity(MainActivity.class).setup();
        MainActivity shop = screen.get();
        sees(() -> shop.status.getText().toString().contains(Eligibility.NO_CONSENT));
        shop.items.performItemClick(null, 1, 1);
        sees(() -> shop.status.getText().toString().startsWith("1 views"));
        shop.recommend.performClick();
        sees(() -> shop.status.getText().toString().startsWith("Nothing"));
        assertEquals(Collections.emptyList(), coordinator.asked());
        assertFalse(shop.consent.isChecked());

        shop.consent.performClick();
        sees(() -> coordinator.count("/v1/releases") == 1 && coordinator.count("/v1/catalogue") == 1);
        sees(() -> shop.status.getText().toString().contains("0 rounds"));
        JobScheduler scheduler = context.getSystemService(JobScheduler.class);
        assertEquals(1, scheduler.getAllPendingJobs().size());
        shop.recommend.performClick();
        sees(() -> shop.status.getText().toString().split("item-").length == 4);
        assertFalse("not what was tapped", shop.status.getText().toString().contains("item-1 "));

        shop.consent.performClick();
        sees(() -> scheduler.getAllPendingJobs().isEmpty());
        screen.destroy();
        assertEquals(1, FedRapAndroid.open(context).status().interactions);
    }

    @Test
    public void withoutANetworkItSaysSo() throws Exception {
        coordinator.hangUp("/v1/");
        MainActivity shop = Robolectric.buildActivity(MainActivity.class).setup().get();
        sees(() -> shop.status.getText().toString().contains(Eligibility.NO_CONSENT));
        shop.consent.performClick();
        sees(() -> shop.status.getText().toString().contains(Eligibility.NOTHING_TO_SHARE));
        shop.recommend.performClick();
        sees(() -> shop.status.getText().toString().startsWith("Nothing to recommend"));
    }

    @Test
    public void theQuickstartRecommendsFromItsFirstRun() throws Exception {
        Throwable[] thrown = new Throwable[1];
        Thread worker = new Thread(() -> Quickstart.run(context));
        worker.setUncaughtExceptionHandler((thread, error) -> thrown[0] = error);
        worker.start();
        worker.join();
        assertEquals(null, thrown[0]);
        assertEquals(7, ShadowLog.getLogsForTag("shop").size()); // of eight, one is known
        assertEquals(1, context.getSystemService(JobScheduler.class).getAllPendingJobs().size());
    }

    @Test
    public void theManifestNamesTheApplicationAndTheActivity() throws Exception {
        String text =
                new String(
                        java.nio.file.Files.readAllBytes(
                                java.nio.file.Paths.get("src/main/AndroidManifest.xml")),
                        "UTF-8");
        for (Class<?> named : new Class<?>[] {ShopApp.class, MainActivity.class}) {
            assertTrue(text.contains("android:name=\"." + named.getSimpleName() + "\""));
        }
        assertTrue(FedRapAndroid.Setup.class.isAssignableFrom(ShopApp.class));
    }
}
