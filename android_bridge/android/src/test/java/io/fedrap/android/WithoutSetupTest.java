package io.fedrap.android;

import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import android.app.job.JobParameters;
import android.content.Context;
import android.content.pm.ProviderInfo;
import android.os.PersistableBundle;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.Shadows;
import org.robolectric.util.ReflectionHelpers;

/** An app whose Application has no set-up: its developer is told, its users are not. */
@RunWith(RobolectricTestRunner.class)
public class WithoutSetupTest {
    @Test
    public void openingSaysWhatToDo() {
        IllegalStateException error =
                assertThrows(
                        IllegalStateException.class,
                        () -> FedRapAndroid.open(RuntimeEnvironment.getApplication()));
        assertTrue(error.getMessage(), error.getMessage().contains("FedRapAndroid.Setup"));
    }

    @Test
    public void aJobEndsWithoutACrash() throws Exception {
        RoundJobService service = Robolectric.setupService(RoundJobService.class);
        JobParameters made = ReflectionHelpers.callConstructor(JobParameters.class);
        ReflectionHelpers.setField(made, "extras", new PersistableBundle());
        service.onStartJob(made);
        assertFalse(JobDriver.finished(service).getIsRescheduleNeeded());
    }

    @Test
    public void aDeveloperHearsOfTelemetryThatIsStillThere() {
        Context context = RuntimeEnvironment.getApplication();
        assertFalse(RuntimeTelemetry.warn(context));
        ProviderInfo provider = new ProviderInfo();
        provider.packageName = context.getPackageName();
        provider.name = RuntimeTelemetry.INITIALIZER;
        provider.authority = "any";
        Shadows.shadowOf(context.getPackageManager()).addOrUpdateProvider(provider);
        assertTrue(RuntimeTelemetry.warn(context));
    }
}
