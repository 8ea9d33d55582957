package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.atomic.AtomicBoolean;

/** A device and its coordinator: when it may call, with what, and what becomes of errors. */
final class RoundSession {
    private static final Map<Kind, String> DISTRUST = new EnumMap<>(Kind.class);

    static {
        DISTRUST.put(Kind.ANOTHER_AUTHORITY, Eligibility.ANOTHER_AUTHORITY);
        DISTRUST.put(Kind.SIGNATURE_INVALID, Eligibility.NOT_SIGNED);
        DISTRUST.put(Kind.FORKED_LOG, Eligibility.FORKED_RELEASE);
    }

    private static final double HEAL_SECONDS = 30 * 86_400.0; // between two memberships given up
    private static final double ATTRIBUTE_SECONDS = 4 * 3600.0; // between two looks at attributes
    private static final double REFUSED_SECONDS = 2 * 86_400.0; // until a refusal for good is asked for again
    private static final double LONGEST_REFUSAL = 366 * 86_400.0;
    private static final double LONGEST_WAIT = 86_400.0; // whatever a coordinator says
    private static final HttpCall.Limits FORGETTING = new HttpCall.Limits(5_000, 10_000, 10_000, 1 << 20);

    private final DeviceState state;
    private final Config config;
    private final Random random = new Random();
    private final AtomicBoolean running = new AtomicBoolean();
    private final Set<Cancellation> calls = new CopyOnWriteArraySet<>(); // a round and syncs that run now
    private volatile String distrusted; // a word of Eligibility
    private volatile Cancellation round; // the one that runs now
    private volatile double attributesAt = Double.NaN; // when public attributes were last fetched
    private volatile long attributesOf; // and of which release

    RoundSession(DeviceState state, Config config) {
        this.state = state;
        this.config = config;
    }

    /** End the round that runs now; a sync goes on. */
    void stopRound() {
        Cancellation running = round;
        if (running != null) {
            running.stop();
        }
    }

    /** End what runs now. */
    void stop() {
        for (Cancellation one : calls) {
            one.stop();
        }
    }

    /** The user agreed that releases are fetched; or was never asked, and the app fetches without a name. */
    private boolean mayFetch() {
        Boolean answer = state.fetching();
        return answer == null ? config.anonymous : answer;
    }

    /** The authority that the app pins, or that a membership had which was given up. */
    private byte[] pinned() {
        return config.authority != null ? config.authority : state.remembered();
    }

    /** Fetch what is new, if the user lets it be fetched and there is somebody to ask. */
    void sync() {
        if (mayFetch() && reachable() && !config.offline) {
            look(); // under the release in use, before another is adopted
            Cancellation mine = newCall();
            Transport transport = transport(mine, config.limits);
            try {
                byte[] authority = Membership.authorityOf(state.credentials(), pinned());
                Transport watched = new ConsentedTransport(transport, () -> checkFetching(mine));
                ReleaseSync.sync(state, watched, authority);
                syncAttributes(watched, authority);
                distrusted = null;
            } catch (FedRapException error) {
                noted(error);
                if (!state.isOpen() || mayFetch()) { // else as if it had not been asked for
                    throw error;
                }
            } finally {
                end(mine, transport);
            }
        }
    }

    /** Join a round if there is one, or soon. Throws only what the store throws. */
    RoundReport runRound(double wait, Conditions conditions) {
        if (!running.compareAndSet(false, true)) {
            return RoundReport.blocked(Eligibility.ALREADY_RUNNING);
        }
        Cancellation mine = newCall(); // before the conditions: a stop after them is heard
        round = mine;
        try {
            state.expire();
            String blocked = blockedBy();
            if (blocked != null) {
                double left = state.waitSeconds(asked());
                return RoundReport.blocked(blocked, left > 0 ? (Double) left : null);
            }
            String unmet = unmet(conditions);
            if (unmet != null) {
                return RoundReport.blocked(unmet);
            }
            look();
            return joined(mine, wait);
        } finally {
            calls.remove(mine);
            round = null;
            running.set(false);
        }
    }

    /** Answer questions about quality, as far as the user agreed to that; how many. */
    int answerQuestions() {
        Credentials known = state.credentials();
        boolean able = known != null && !state.isLedgerLost() && !config.offline && reachable();
        if (!able || config.measure == null || !state.mayMeasure() || !running.compareAndSet(false, true)) {
            return 0;
        }
        Cancellation mine = newCall();
        Transport transport = transport(mine, config.limits);
        try {
            look();
            byte[] authority = Membership.authorityOf(known, pinned());
            Transport watched = new ConsentedTransport(transport, () -> checkMeasuring(mine));
            int answered = config.measure.answer(state, watched, known, authority, config);
            distrusted = null;
            return answered;
        } catch (FedRapException error) {
            noted(error);
            if (state.isOpen() && error.kind() != Kind.STOPPED) {
                tellApp(error);
            }
            return 0;
        } finally {
            end(mine, transport);
            running.set(false);
        }
    }

    private void look() {
        try {
            if (config.measure != null) {
                config.measure.look(state);
            }
        } catch (FedRapException error) { // a release that gives no lists is no reason to miss the next
            if (!error.isOneOf(Kind.BROKEN_MODEL, Kind.WRONG_SHAPE, Kind.NOT_FINITE)) {
                throw error;
            }
            tellApp(error);
        }
    }

    /** A condition that throws counts as not met: it costs nothing to wait. */
    private String unmet(Conditions conditions) {
        try {
            return conditions.blockedBy();
        } catch (RuntimeException error) {
            tellApp(error);
            return Eligibility.NOT_IDLE;
        }
    }

    private RoundReport joined(Cancellation mine, double wait) {
        Transport transport = transport(mine, config.limits);
        try {
            return attempted(mine, new ConsentedTransport(transport, () -> check(mine)), wait);
        } catch (FedRapException error) {
            return failed(mine, error);
        } finally {
            end(mine, transport);
        }
    }

    /** Once more where the coordinator does not know this device, and the app has a fresh token. */
    private RoundReport attempted(Cancellation mine, Transport transport, double wait) {
        boolean member = state.credentials() != null;
        RoundReport report = attemptedOnce(mine, transport, wait);
        if (member && mayHeal(report)) {
            state.forgetCredentials();
            report = attemptedOnce(mine, transport, wait);
        }
        if (!Eligibility.TOKEN_FAILED.equals(report.blockedBy)) { // else nobody was asked
            refreshAttributes(transport);
        }
        return remembered(report);
    }

    /** The report, with when to ask again; kept on the device, for a job's process ends. */
    private RoundReport remembered(RoundReport report) {
        Double after = report.retryAfter;
        if (Eligibility.stands(report.blockedBy)) {
            double seconds =
                    after != null && after >= REFUSED_SECONDS / 2
                            ? Math.min(after, LONGEST_REFUSAL)
                            : REFUSED_SECONDS * (0.5 + random.nextDouble());
            state.keepWait(seconds, report.blockedBy, asked());
            return RoundReport.blocked(report.blockedBy, seconds);
        }
        if (after != null) {
            state.keepWait(Math.min(after, LONGEST_WAIT), "", asked());
        } else if (state.refused(asked()) != null
                && (report.joined || Problem.familyOf(report.blockedBy) != null)) {
            state.keepWait(0, "", asked());
        }
        return report;
    }

    /** Which server and which token of the app's a wait is for; a source of tokens has fresh ones. */
    private byte[] asked() {
        String once = "";
        try {
            once = config.tokenOnce && config.token != null ? config.token.token() : "";
        } catch (Exception error) {
            // A text does not throw.
        }
        byte[] text = ("fedrap wait" + config.server + "\n" + once).getBytes(StandardCharsets.UTF_8);
        return Arrays.copyOf(Bytes.sha256(text), 16);
    }

    private void syncAttributes(Transport transport, byte[] authority) {
        if (config.attributes) {
            ReleaseSync.attributes(state, transport, authority);
            attributesAt = state.now();
            attributesOf = version();
        }
    }

    /** After a round, where a release came or hours passed; what fails has no part in it. */
    private void refreshAttributes(Transport transport) {
        double since = state.now() - attributesAt; // NaN: never
        if (!config.attributes
                || since >= 0 && since < ATTRIBUTE_SECONDS && attributesOf == version()) {
            return;
        }
        try {
            syncAttributes(transport, Membership.authorityOf(state.credentials(), pinned()));
        } catch (FedRapException error) {
            if (error.kind() != Kind.STOPPED) {
                tellApp(error);
            }
        }
    }

    private long version() {
        LocalModel model = state.model();
        return model == null ? 0 : model.common.version;
    }

    private boolean mayHeal(RoundReport report) {
        double since = state.now() - state.healedAt(); // NaN: never
        boolean recently = since >= 0 && since < HEAL_SECONDS;
        boolean unknown = "not-enrolled".equals(report.blockedBy) || "revoked".equals(report.blockedBy);
        return unknown && !recently && config.token != null && !config.tokenOnce;
    }

    private RoundReport attemptedOnce(Cancellation mine, Transport transport, double wait) {
        String token = null;
        if (state.credentials() == null) {
            check(mine); // the app's own may ask somebody too
            try {
                token = config.token.token();
                if (token == null || token.isEmpty()) {
                    throw Arguments.wrong("token", "a token is text, or a callable that gives one");
                }
            } catch (Exception error) { // its backend may be out of reach
                check(mine);
                tellApp(error);
                return RoundReport.blocked(Eligibility.TOKEN_FAILED);
            }
            check(mine);
        }
        Membership membership =
                new Membership(
                        state, transport, token, config.attest, () -> check(mine), pinned());
        RoundRunner runner =
                new RoundRunner(
                        state, transport, membership, config, pinned(), wait, mine);
        try {
            RoundReport report = runner.run();
            distrusted = null;
            return report;
        } catch (UpdateRefused refused) {
            return refused(refused);
        }
    }

    /** Whatever the app's listener does, the report is given. */
    private void tellApp(Exception error) {
        try {
            config.onError.heard(error);
        } catch (RuntimeException again) {
            // There is nobody left to tell.
        }
    }

    private RoundReport refused(UpdateRefused refused) {
        if (refused.isFinal()) { // "no room now" is daily life
            tellApp(refused);
        }
        return RoundReport.blocked(refused.code(), refused.retryAfter());
    }

    private RoundReport failed(Cancellation mine, FedRapException error) {
        if (state.isWithdrawn()) {
            return RoundReport.blocked(Eligibility.NO_CONSENT);
        }
        if (error.kind() == Kind.STOPPED || mine.isStopped()) {
            return RoundReport.blocked(Eligibility.STOPPED);
        }
        tellApp(error);
        if (noted(error) != null) {
            return RoundReport.blocked(noted(error));
        }
        if (error.kind() == Kind.COORDINATOR_UNREACHABLE) {
            return RoundReport.blocked(Eligibility.UNREACHABLE);
        }
        if (error.kind() == Kind.BROKEN_MODEL) {
            return RoundReport.blocked(Eligibility.BROKEN_RELEASE);
        }
        throw error;
    }

    /** A word for an answer that is not the authority's, kept until one is; null for another error. */
    private String noted(FedRapException error) {
        String word = DISTRUST.get(error.kind());
        distrusted = word != null ? word : distrusted;
        return word;
    }

    /** Why what the coordinator last sent was not taken for the authority's; null when it was. */
    String distrusted() {
        return distrusted;
    }

    /** What the coordinator refused for good, until it says something else; null when nothing. */
    String refused() {
        return state.refused(asked());
    }

    /** Ask the coordinator to forget this device; null when it has, or never knew it. */
    String forget() {
        Credentials credentials = state.credentials();
        if (credentials == null) {
            return null;
        }
        if (config.offline || !reachable()) {
            return config.offline ? Eligibility.OFFLINE : Eligibility.NO_SERVER;
        }
        Cancellation mine = newCall();
        Transport transport = transport(mine, FORGETTING);
        try {
            transport.forget(new Signer(credentials, state));
            return null;
        } catch (UpdateRefused refused) {
            return refused.is("not-enrolled") ? null : refused.code();
        } catch (FedRapException error) {
            return Eligibility.UNREACHABLE;
        } finally {
            end(mine, transport);
        }
    }

    /** Why a round would not run now. */
    String blockedBy() {
        String blocked =
                Eligibility.blockedBy(
                        state.consented(), config.offline, reachable(),
                        state.credentials() != null || config.token != null, state.recorded(),
                        state.waitSeconds(asked()), state.isLedgerLost());
        boolean refused = Eligibility.TOLD_TO_WAIT.equals(blocked) && refused() != null;
        return refused ? refused() : blocked;
    }

    private boolean reachable() {
        return config.transport != null || config.server != null;
    }

    private Cancellation newCall() {
        Cancellation fresh = new Cancellation();
        calls.add(fresh);
        return fresh;
    }

    private Transport transport(Cancellation mine, HttpCall.Limits limits) {
        return config.transport != null
                ? config.transport
                : new UrlTransport(new HttpCall(config.server, mine, limits));
    }

    /** The same for answers to questions. */
    private void checkMeasuring(Cancellation mine) {
        if (state.isOpen() && !state.mayMeasure()) {
            mine.stop();
        }
        mine.check();
    }

    /** The same for a sync, which needs less. */
    private void checkFetching(Cancellation mine) {
        if (state.isOpen() && !mayFetch()) {
            mine.stop();
        }
        mine.check();
    }

    /** Before anybody is asked for anything; throws where the user or the app has said no. */
    private void check(Cancellation mine) {
        if (state.isWithdrawn()) {
            mine.stop();
        }
        mine.check();
    }

    /** A test's own transport stays open. */
    private void end(Cancellation mine, Transport transport) {
        calls.remove(mine);
        if (transport != config.transport) {
            transport.close();
        }
    }
}
