package io.fedrap.sample;

import io.fedrap.core.Config;

/** The app with a coordinator and a token of this machine. */
public class LocalShop extends ShopApp {
    static volatile String server;

    @Override
    public Config fedrap(Config config) {
        return super.fedrap(config).server(server).token("a token");
    }
}
