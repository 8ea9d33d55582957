package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.atomic.AtomicBoolean;

/** A device and its coordinator: when it may call, with what, and what becomes of errors. */
final class Joining {
    private static final double LONGEST_WAIT = 86_400.0; // whatever a coordinator says
    private static final HttpCall.Limits FORGETTING = new HttpCall.Limits(5_000, 10_000, 10_000, 1 << 20);

    private final DeviceState state;
    private final Config config;
    private final AtomicBoolean running = new AtomicBoolean();
    private final Set<Turn> turns = new CopyOnWriteArraySet<>(); // a round and syncs that run now

    Joining(DeviceState state, Config config) {
        this.state = state;
        this.config = config;
    }

    /** End what runs now. */
    void stop() {
        for (Turn one : turns) {
            one.stop();
        }
    }

    /** Fetch what is new, if the user consented and there is somebody to ask. */
    void sync() {
        if (state.consented() && reachable() && !config.offline) {
            Turn mine = newTurn();
            Transport transport = transport(mine, config.limits);
            try {
                Syncing.sync(state, transport);
            } finally {
                end(mine, transport);
            }
        }
    }

    /** Join a round if there is one, or soon. Throws only what the store throws. */
    RoundReport runRound(double wait, Conditions conditions) {
        if (!running.compareAndSet(false, true)) {
            return RoundReport.blocked(Policy.ALREADY_RUNNING);
        }
        try {
            state.expire();
            String blocked = blockedBy();
            if (blocked != null) {
                double left = state.waitSeconds();
                return RoundReport.blocked(blocked, left > 0 ? (Double) left : null);
            }
            String unmet = unmet(conditions);
            return unmet != null ? RoundReport.blocked(unmet) : joined(newTurn(), wait);
        } finally {
            running.set(false);
        }
    }

    /** A condition that throws counts as not met: it costs nothing to wait. */
    private String unmet(Conditions conditions) {
        try {
            return conditions.blockedBy();
        } catch (RuntimeException error) {
            hear(error);
            return Policy.NOT_IDLE;
        }
    }

    private RoundReport joined(Turn mine, double wait) {
        Transport transport = transport(mine, config.limits);
        try {
            return attempted(mine, transport, wait);
        } catch (FedRapException error) {
            return failed(mine, error);
        } finally {
            end(mine, transport);
        }
    }

    private RoundReport attempted(Turn mine, Transport transport, double wait) {
        String token = null;
        if (state.credentials() == null) {
            try {
                token = config.token.token();
            } catch (Exception error) { // the app's own: its backend may be out of reach
                hear(error);
                return RoundReport.blocked(Policy.NO_TOKEN);
            }
        }
        Membership membership = new Membership(state, transport, token, config.attest);
        RoundRunner runner =
                new RoundRunner(
                        state, transport, membership, config.trainer, config.floor, wait, mine,
                        config.watcher);
        try {
            return runner.run();
        } catch (UpdateRefused refused) {
            return refused(refused);
        }
    }

    /** Whatever the app's listener does, the report is given. */
    private void hear(Exception error) {
        try {
            config.onError.heard(error);
        } catch (RuntimeException again) {
            // There is nobody left to tell.
        }
    }

    private RoundReport refused(UpdateRefused refused) {
        if (refused.retryAfter() != null) {
            state.keepWait(Math.min(refused.retryAfter(), LONGEST_WAIT));
        }
        if (refused.isFinal()) { // "no room now" is daily life
            hear(refused);
        }
        return RoundReport.blocked(refused.code(), refused.retryAfter());
    }

    private RoundReport failed(Turn mine, FedRapException error) {
        if (error.kind() == Kind.STOPPED || mine.isStopped()) {
            return RoundReport.blocked(Policy.STOPPED);
        }
        hear(error);
        if (error.kind() == Kind.COORDINATOR_UNREACHABLE) {
            return RoundReport.blocked(Policy.UNREACHABLE);
        }
        if (error.kind() == Kind.BROKEN_MODEL) {
            return RoundReport.blocked(Policy.BROKEN_RELEASE);
        }
        throw error;
    }

    /** Ask the coordinator to forget this device; null when it has, or never knew it. */
    String forget() {
        Credentials credentials = state.credentials();
        if (credentials == null) {
            return null;
        }
        if (config.offline || !reachable()) {
            return config.offline ? Policy.OFFLINE : Policy.NO_SERVER;
        }
        Turn mine = newTurn();
        Transport transport = transport(mine, FORGETTING);
        try {
            transport.forget(new Signer(credentials, state::nextNonce));
            return null;
        } catch (UpdateRefused refused) {
            return refused.is("not-enrolled") ? null : refused.code();
        } catch (FedRapException error) {
            return Policy.UNREACHABLE;
        } finally {
            end(mine, transport);
        }
    }

    /** Why a round would not run now. */
    String blockedBy() {
        return Policy.blockedBy(
                state.consented(), config.offline, reachable(),
                state.credentials() != null || config.token != null, state.recorded(),
                state.waitSeconds());
    }

    private boolean reachable() {
        return config.transport != null || config.server != null;
    }

    private Turn newTurn() {
        Turn fresh = new Turn();
        turns.add(fresh);
        return fresh;
    }

    private Transport transport(Turn mine, HttpCall.Limits limits) {
        return config.transport != null
                ? config.transport
                : new UrlTransport(new HttpCall(config.server, mine, limits));
    }

    /** A test's own transport stays open. */
    private void end(Turn mine, Transport transport) {
        turns.remove(mine);
        if (transport != config.transport) {
            transport.close();
        }
    }
}
