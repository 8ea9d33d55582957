package io.fedrap.android;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.*;
@RunWith(RobolectricTestRunner.class)
@org.robolectric.annotation.Config(manifest="src/main/AndroidManifest.xml")
public class ProbeTest {
  @Test public void runs() throws Exception {
    android.app.Application a = RuntimeEnvironment.getApplication();
    System.out.println(a.getNoBackupFilesDir()+" "+a.getPackageName());
    android.content.pm.PackageInfo p = a.getPackageManager().getPackageInfo(a.getPackageName(), 4|8|4096);
    System.out.println(java.util.Arrays.toString(p.services)+java.util.Arrays.toString(p.providers)+java.util.Arrays.toString(p.requestedPermissions));
    for (java.security.Provider x : java.security.Security.getProviders()) System.out.println(x);
  }
}
