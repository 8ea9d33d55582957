package io.fedrap.android;

import android.app.Application;
import io.fedrap.core.Config;
import java.util.ArrayList;
import java.util.List;

/** An app of tests: its settings are what a test says. */
public class TestApp extends Application implements FedRapAndroid.Setup {
    static volatile String server;
    static final List<Exception> ERRORS = new ArrayList<>();

    @Override
    public Config fedrap(Config config) {
        return config.server(server).token("a token").onError(ERRORS::add);
    }
}
