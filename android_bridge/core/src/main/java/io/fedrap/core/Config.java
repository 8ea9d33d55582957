package io.fedrap.core;

import java.io.File;
import java.net.MalformedURLException;
import java.net.URL;
import java.util.Locale;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;
import org.jspecify.annotations.Nullable;

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
    String profile; // null: the device has one user
    Kinds kinds = Kinds.anyWord();
    boolean anonymous; // releases are fetched also before the user was asked
    boolean attributes; // public ones of the items are fetched too
    boolean tokenOnce; // the token is one text, and no source of fresh ones
    final Ledger.Floor floor = new Ledger.Floor();
    Retention retention = new Retention(10_000, Double.POSITIVE_INFINITY);
    boolean offline;
    boolean allowHttp;
    boolean freshWhenLost;
    ErrorListener onError = error -> {};
    LocalTrainer trainer = new JvmTrainer();
    String trainerReason = "plain Java is the default of a device";
    Proof.Source attest;
    Aggregation aggregation; // null: one server, which reads updates while it adds them
    Measure measure; // null: no questions are answered
    DoubleSupplier clock = () -> System.currentTimeMillis() / 1e3;
    HttpCall.Limits limits = HttpCall.Limits.DEFAULT;
    Transport transport; // in place of HTTP, for tests
    Consumer<String> watcher = step -> {};

    /** A device whose files are below this folder, which is made where it is not there. */
    public Config(File folder) {
        this.folder = Arguments.present("path", folder, Arguments.PATH);
        if (folder.getPath().isEmpty()) {
            throw Arguments.wrong("path", Arguments.PATH);
        }
    }

    /** Name of the folder of this recommender; "app" unless said. */
    public Config app(String name) {
        this.app = Arguments.folderName("app", name);
        return this;
    }

    /**
     * Whose store it is, where several people use the device; null for one user. Each profile has a
     * store and a key of its own: opening it is logging in, closing it logging out, and erasing it
     * leaves the others alone. The name is in no path.
     */
    public Config profile(@Nullable String name) {
        this.profile = name == null ? null : Arguments.text("profile", name, 200, Arguments.PROFILE);
        return this;
    }

    /**
     * What the app's kinds of interactions count. Unless said every kind counts 1, but {@code dislike}
     * counts -1 and {@code hide} hides the item.
     */
    public Config kinds(Kinds kinds) {
        this.kinds = Arguments.present("kinds", kinds, "a Kinds is expected");
        return this;
    }

    /**
     * {@code consented}: releases are fetched when the user agreed. {@code anonymous}: also before they
     * were asked, which shows the coordinator an address and no device id.
     */
    public Config fetch(String when) {
        if (!"consented".equals(when) && !"anonymous".equals(when)) {
            throw Arguments.wrong("fetch", Arguments.FETCH);
        }
        this.anonymous = when.equals("anonymous");
        return this;
    }

    /**
     * Fetch what the operator tells everybody of the items, too: titles, categories, addresses. Whoever
     * fetches any fetches all of them.
     */
    public Config attributes(boolean wanted) {
        this.attributes = wanted;
        return this;
    }

    /**
     * Address of the coordinator; without one everything works but rounds.
     *
     * @throws IllegalArgumentException not a URL with https. Without TLS only this machine itself is
     *     spoken to, unless {@link #allowHttp} was called before.
     */
    public Config server(@Nullable String url) {
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
            throw Arguments.wrong("server", Arguments.ADDRESS);
        }
        boolean odd = parsed.getHost().isEmpty() || parsed.getUserInfo() != null || url.indexOf('@') >= 0;
        for (int i = 0; i < url.length(); i++) {
            odd |= Character.isWhitespace(url.charAt(i)) || url.charAt(i) == '\\';
        }
        String scheme = parsed.getProtocol().toLowerCase(Locale.ROOT);
        boolean secure = scheme.equals("https");
        if (odd || !secure && !scheme.equals("http")) {
            throw Arguments.wrong("server", Arguments.ADDRESS);
        }
        boolean near = scheme.equals("http") && (allowHttp || isLoopback(parsed.getHost()));
        if (!secure && !near) {
            throw Arguments.wrong(
                    "server",
                    "http://" + parsed.getHost() + " is not encrypted, and whoever is in between reads and"
                            + " changes everything; use https, or ask for it with allow_http=True"
                            + " (--allow-http)");
        }
    }

    private static boolean isLoopback(String host) {
        return host.equals("localhost") || host.equals("[::1]") || host.matches("127(\\.[0-9]{1,3}){3}");
    }

    /** A one-time enrolment token. */
    public Config token(@Nullable String once) {
        token(once == null ? null : (TokenSource) () -> once);
        this.tokenOnce = true;
        return this;
    }

    /** Where a one-time enrolment token comes from, when this device enrols. */
    public Config token(@Nullable TokenSource source) {
        this.tokenOnce = false;
        this.token = source;
        return this;
    }

    /**
     * The public key of the task's authority, in the text that {@code fedrap-coordinator authority}
     * prints. Without it the device keeps the one that it first enrols with.
     *
     * @throws IllegalArgumentException it is no such key
     */
    public Config authority(@Nullable String text) {
        this.authority = text == null ? null : Authority.point(text);
        return this;
    }

    /** The same as the 65 bytes of a point. */
    public Config authority(byte @Nullable [] point) {
        this.authority = point == null ? null : Authority.checked(point);
        return this;
    }

    /** Where the store's key comes from; by default a file that only its owner reads. */
    public Config key(@Nullable KeyProvider provider) {
        this.key = provider;
        return this;
    }

    /**
     * The least this device insists on, whatever a coordinator offers. The default is 2 steps apart,
     * 100 rounds, 20 devices, and an epsilon of at most 10 for what this device does in any 365 days, with
     * a clip of at most 100; {@link #floorLifetime} says more of time.
     */
    public Config floor(
            int separation, int cap, int minUpdates, double minNoise, double maxEpsilon, double maxClip) {
        floor.separation = separation;
        floor.cap = cap;
        floor.minUpdates = minUpdates;
        floor.minNoise = minNoise;
        floor.maxEpsilon = maxEpsilon;
        floor.maxClip = maxClip;
        floor.check();
        return this;
    }

    /**
     * How long rounds and epsilon of the floor are counted: in any window of so many days, or of the plan's
     * if that is longer, and epsilon of all that this device ever does, where that is more. By default 365
     * and 30; a plan without a window counts for a life.
     */
    public Config floorLifetime(double windowDays, double maxLifetimeEpsilon) {
        floor.windowDays = windowDays;
        floor.maxLifetimeEpsilon = maxLifetimeEpsilon;
        floor.check();
        return this;
    }

    /**
     * Ask the user again: a policy that guarantees less than the last one this device took part under waits
     * until {@code consent} is called once more. {@link RoundReport#offered} says what it would be.
     */
    public Config floorAskAgain(boolean ask) {
        floor.askAgain = ask;
        return this;
    }

    /** Epsilon of all answers to questions in a window, at the most; 2 by default. */
    public Config floorQuestions(double maxEpsilon) {
        floor.maxQuestionEpsilon = maxEpsilon;
        floor.check();
        return this;
    }

    /**
     * Join also rounds that promise nothing: no bound on epsilon, and as few devices as this. Everything
     * else is as in the default.
     */
    public Config withoutPrivacy(int minUpdates) {
        floor(2, 100, minUpdates, 0, Double.POSITIVE_INFINITY, 100);
        return floorQuestions(Double.POSITIVE_INFINITY);
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
        this.onError = Arguments.present("on_error", listener, Arguments.CALLABLE);
        return this;
    }

    /** What computes rounds; plain Java unless said. */
    public Config trainer(LocalTrainer trainer) {
        this.trainer = Arguments.present("trainer", trainer, Arguments.CALLABLE);
        this.trainerReason = "the caller asked for it";
        return this;
    }

    /**
     * Demand that nobody sees one device's items: {@code new Split(helper)} of the module {@code
     * fedrap-split}. Rounds of one server, and of another helper, are refused; without it those of two.
     */
    public Config aggregation(@Nullable Aggregation wanted) {
        this.aggregation = wanted;
        return this;
    }

    /**
     * What answers questions about quality, for users who agree to that: {@code new Measuring()} of the
     * module {@code fedrap-measure}. Without it none are answered.
     */
    public Config measure(@Nullable Measure measure) {
        this.measure = measure;
        return this;
    }

    /** The platform's attestation, where a coordinator asks for one. */
    public Config attest(Proof.@Nullable Source source) {
        this.attest = source;
        return this;
    }

    @Override
    public String toString() {
        return "Config(" + folder + ")";
    }
}
