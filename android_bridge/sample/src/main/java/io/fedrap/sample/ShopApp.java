package io.fedrap.sample;

// begin: application
import android.app.Application;
import io.fedrap.android.FedRapAndroid;
import io.fedrap.core.Config;

public class ShopApp extends Application implements FedRapAndroid.Setup {
    @Override
    public Config fedrap(Config config) { // also asked in a process started for a background round
        return config.server("https://fed.example.org").token(Backend::token);
    }
}
// end: application
