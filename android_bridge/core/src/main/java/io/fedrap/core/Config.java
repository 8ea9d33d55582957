package io.fedrap.core;

import java.io.File;
import java.net.MalformedURLException;
import java.net.URL;
import java.util.Locale;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;

/** How a device is opened: where it keeps things, whom it talks to, and on what terms. */
public final class Config {
    /** Gets an enrolment token from the app's backend. It may block, and throw when it cannot. */
    public interface TokenSource {
        String token() throws Exception;
    }

    /** Is called with errors that become a mere report; in the thread of the call. */
    public interface ErrorListener {
        void heard(Exception error);
    }

    final File folder;
    String app = "app";
    String server;
    TokenSource token;
    byte[] authority; // a point that the app pins
    KeyProvider key;
    Ledger.Floor floor = Ledger.Floor.DEFAULT;
    Retention retention = new Retention(10_000, Double.POSITIVE_INFINITY);
    boolean offline;
    boolean allowHttp;
    boolean freshWhenLost;
    ErrorListener onError = error -> {};
    LocalTrainer trainer = new JvmTrainer();
    Proof.Source attest;
    DoubleSupplier clock = () -> System.currentTimeMillis() / 1e3;
    HttpCall.Limits limits = HttpCall.Limits.DEFAULT;
    Transport transport; // in place of HTTP, for tests
    Consumer<String> watcher = step -> {};

    /** A device whose files are below this folder, which is made where it is not there. */
    public Config(File folder) {
        this.folder = folder;
    }

    /** Name of the folder of this recommender; "app" unless said. */
    public Config app(String name) {
        if (name.isEmpty() || name.indexOf('/') >= 0 || name.startsWith(".")) {
            throw new IllegalArgumentException("the name of an app is the name of a folder");
        }
        this.app = name;
        return this;
    }

    /**
     * Address of the coordinator; without one everything works but rounds.
     *
     * @throws IllegalArgumentException not a URL with https. Without TLS only this machine itself is
     *     spoken to, unless {@link #allowHttp} was called before.
     */
    public Config server(String url) {
        if (url != null) {
            checkServer(url);
        }
        this.server = url;
        return this;
    }

    /** Speak without TLS to a server in one's own network. Android refuses this on its own, too. */
    public Config allowHttp(boolean allowed) {
        this.allowHttp = allowed;
        return this;
    }

    private void checkServer(String url) {
        URL parsed;
        try {
            parsed = new URL(url);
        } catch (MalformedURLException error) {
            throw new IllegalArgumentException("the address of a coordinator is a URL", error);
        }
        String scheme = parsed.getProtocol().toLowerCase(Locale.ROOT);
        boolean secure = scheme.equals("https");
        boolean near = scheme.equals("http") && (allowHttp || isLoopback(parsed.getHost()));
        if (!secure && !near) {
            throw new IllegalArgumentException(
                    "a coordinator is spoken to over https; allowHttp(true) allows http");
        }
    }

    private static boolean isLoopback(String host) {
        return host.equals("localhost") || host.equals("[::1]") || host.matches("127(\\.[0-9]{1,3}){3}");
    }

    /** A one-time enrolment token. */
    public Config token(String once) {
        return token(once == null ? null : (TokenSource) () -> once);
    }

    /** Where a one-time enrolment token comes from, when this device enrols. */
    public Config token(TokenSource source) {
        this.token = source;
        return this;
    }

    /**
     * The public key of the task's authority, in the text that {@code fedrap-coordinator authority}
     * prints. Without it the device keeps the one that it first enrols with.
     *
     * @throws IllegalArgumentException it is no such key
     */
    public Config authority(String text) {
        this.authority = text == null ? null : Authority.point(text);
        return this;
    }

    /** The same as the 65 bytes of a point. */
    public Config authority(byte[] point) {
        this.authority = point == null ? null : Authority.checked(point);
        return this;
    }

    /** Where the store's key comes from; by default a file that only its owner reads. */
    public Config key(KeyProvider provider) {
        this.key = provider;
        return this;
    }

    /**
     * The least this device insists on, whatever a coordinator offers. The default is 2 steps apart,
     * 100 rounds, 20 devices, and an epsilon of at most 10 for all that this device does, with a clip
     * of at most 100.
     */
    public Config floor(
            int separation, int cap, int minUpdates, double minNoise, double maxEpsilon, double maxClip) {
        this.floor = new Ledger.Floor(separation, cap, minUpdates, minNoise, maxEpsilon, maxClip);
        return this;
    }

    /**
     * Join also rounds that promise nothing: no bound on epsilon, and as few devices as this. Everything
     * else is as in the default.
     */
    public Config withoutPrivacy(int minUpdates) {
        return floor(2, 100, minUpdates, 0, Double.POSITIVE_INFINITY, 100);
    }

    /**
     * How much of the history is kept, and how long: 10,000 interactions of any age unless said.
     *
     * @param maxAgeDays infinite for any age
     */
    public Config retention(int maxInteractions, double maxAgeDays) {
        this.retention = new Retention(maxInteractions, maxAgeDays);
        return this;
    }

    /** Never open a socket, whatever else is asked for. */
    public Config offline(boolean offline) {
        this.offline = offline;
        return this;
    }

    /**
     * Where the key is gone or the files are damaged, delete what is left and start afresh, instead of
     * throwing; {@link Status#storeReset} says so from then on. What no key opens is lost either way.
     */
    public Config freshWhenLost(boolean fresh) {
        this.freshWhenLost = fresh;
        return this;
    }

    /** Is called with errors that rounds turn into a report. */
    public Config onError(ErrorListener listener) {
        this.onError = listener;
        return this;
    }

    /** What computes rounds; plain Java unless said. */
    public Config trainer(LocalTrainer trainer) {
        this.trainer = trainer;
        return this;
    }

    /** The platform's attestation, where a coordinator asks for one. */
    public Config attest(Proof.Source source) {
        this.attest = source;
        return this;
    }
}
