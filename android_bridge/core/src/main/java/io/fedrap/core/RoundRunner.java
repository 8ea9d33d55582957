package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;

/**
 * One round from this device's side, resumable at each step.
 *
 * <p>enrol once, renew in time; send what is left over; sync; ask for a place; check the own ledger;
 * compute; one transaction; send. A crash before the transaction means that nothing happened; a crash
 * after it means that the same bytes are sent again.
 */
final class RoundRunner {
    private static final double LONGEST_WAIT = 60.0; // seconds; proxies cut longer requests off

    private final DeviceState state;
    private final Transport transport;
    private final Membership membership;
    private final LocalTrainer trainer;
    private final Ledger.Floor floor;
    private final double wait;
    private final Turn turn;
    private final Consumer<String> watcher; // hears where a round is; a test dies there

    RoundRunner(
            DeviceState state,
            Transport transport,
            Membership membership,
            LocalTrainer trainer,
            Ledger.Floor floor,
            double wait,
            Turn turn,
            Consumer<String> watcher) {
        this.state = state;
        this.transport = transport;
        this.membership = membership;
        this.trainer = trainer;
        this.floor = floor;
        this.wait = Math.min(Math.max(0.0, wait), LONGEST_WAIT);
        this.turn = turn;
        this.watcher = watcher;
    }

    /**
     * Join a round if there is one for this device; renews its certificate where need be.
     *
     * @throws FedRapException COORDINATOR_UNREACHABLE, BROKEN_MODEL, STOPPED or {@link UpdateRefused},
     *     for the caller to turn into a report.
     */
    RoundReport run() {
        Credentials credentials = membership.credentials();
        if (credentials == null) {
            return RoundReport.blocked(Policy.NO_TOKEN);
        }
        try {
            return join(credentials);
        } catch (UpdateRefused refused) {
            if (!refused.is("certificate-expired")) {
                throw refused;
            }
        }
        return join(membership.renew(credentials));
    }

    private RoundReport join(Credentials credentials) {
        Signer signer = new Signer(credentials, state::nextNonce);
        List<String> left = state.outbox();
        if (!left.isEmpty()) {
            byte[] body = state.outgoing(left.get(0));
            send(signer, left.get(0), body);
            return RoundReport.joined(null, body.length, null);
        }
        Syncing.sync(state, transport);
        LocalModel held = state.model();
        if (held != null && state.history().rows.length == 0) {
            return RoundReport.blocked(Policy.NOTHING_TO_SHARE); // an empty share costs a place too
        }
        if (held != null && !held.held.scoring.isSolve()) {
            return RoundReport.blocked(Policy.UNSUPPORTED_METHOD); // and so does one not computed
        }
        step("before-offer");
        Offer offer = ask(signer);
        step("after-offer");
        LocalModel model = state.model();
        if (model == null) {
            return RoundReport.blocked(Policy.NO_RELEASE);
        }
        Plan plan = plan(offer);
        String why = judge(offer, plan, credentials, model);
        return why != null
                ? RoundReport.declined(why, offer.step)
                : follow(signer, offer, plan, credentials, model);
    }

    private RoundReport follow(
            Signer signer, Offer offer, Plan plan, Credentials credentials, LocalModel model) {
        Prepared prepared;
        try {
            prepared = prepare(offer, plan, credentials, model);
        } catch (FedRapException error) {
            if (error.kind() == Kind.BROKEN_MODEL) {
                return RoundReport.declined(Policy.BROKEN_RELEASE, offer.step);
            }
            throw cannotFollow(error);
        }
        turn.check();
        if (!state.consented()) { // taken back while the round was being computed
            return RoundReport.declined(Policy.NO_CONSENT, offer.step);
        }
        step("before-commit");
        state.commitRound(prepared);
        step("before-send");
        send(signer, Bytes.hex(offer.round), prepared.body);
        return RoundReport.joined(offer.step, prepared.body.length, prepared.loss);
    }

    /** A place, waited for; when a release came out in between, fetch it and ask again. */
    private Offer ask(Signer signer) {
        long until = System.nanoTime() + (long) (wait * 1e9);
        int tries = wait > 0 ? 3 : 2;
        while (true) {
            double left = Math.max(0.0, (until - System.nanoTime()) / 1e9);
            LocalModel held = state.model();
            try {
                return transport.offer(signer, held == null ? 0 : held.common.version, left);
            } catch (UpdateRefused refused) {
                tries--;
                if (tries == 0 || !refused.is("stale-model")) {
                    throw refused;
                }
            }
            Syncing.sync(state, transport);
        }
    }

    private static Plan plan(Offer offer) {
        try {
            return Plan.decode(offer.plan);
        } catch (FedRapException error) {
            throw FedRapException.unreachable(
                    "a plan that this version cannot read: " + error.getMessage(), error);
        }
    }

    /** Null when this device follows the plan; otherwise a word for why it does not. */
    private String judge(Offer offer, Plan plan, Credentials credentials, LocalModel model) {
        if (!Arrays.equals(offer.task, credentials.task)) {
            return "another-task";
        }
        if (!plan.isSolve()) {
            return Policy.UNSUPPORTED_METHOD;
        }
        boolean same = Arrays.equals(offer.model, model.held.model);
        if (!same || plan.method().dim != model.common.dim() || !model.held.scoring.isSolve()) {
            return "stale-model";
        }
        List<Ledger.Entry> entries = state.entries();
        for (Ledger.Entry entry : entries) {
            // An entry is written with the bytes to send, and those were answered: the outbox is empty.
            if (Arrays.equals(entry.round, offer.round)) {
                return Policy.ALREADY_IN_ROUND;
            }
        }
        return Ledger.whyNot(entries, offer.step, plan, floor);
    }

    private Prepared prepare(Offer offer, Plan plan, Credentials credentials, LocalModel model) {
        RoundShare share =
                RoundShare.compute(
                        plan, model.common, model.gram(), state.history(), trainer, new SecureRandom());
        byte[] body = Sealing.seal(offer, credentials.device, share.plaintext);
        Ledger.Entry entry = new Ledger.Entry(offer.step, offer.round, state.now(), plan.privacy);
        return new Prepared(offer.round, body, entry, share.loss);
    }

    /** Such as a sealing key that is no point of the curve; a trainer's own fault stays one. */
    private static FedRapException cannotFollow(FedRapException error) {
        if (!error.isOneOf(Kind.MALFORMED_MESSAGE, Kind.WRONG_SHAPE, Kind.NOT_FINITE)) {
            return error;
        }
        return FedRapException.unreachable(
                "an offer that cannot be followed: " + error.getMessage(), error);
    }

    /** Until the coordinator has said yes or a final no, the bytes stay in the outbox. */
    private void send(Signer signer, String round, byte[] body) {
        Accepted answer;
        try {
            answer = transport.sendUpdate(signer, unhex(round), body);
        } catch (UpdateRefused refused) {
            if (refused.isFinal()) {
                state.forgetOutgoing(round);
            }
            throw refused;
        }
        if (!Arrays.equals(answer.digest, Bytes.sha256(body))) {
            throw FedRapException.unreachable("the receipt is for other bytes");
        }
        watcher.accept("after-send"); // what was answered is forgotten, also when it was stopped
        state.forgetOutgoing(round);
        watcher.accept("after-forget");
    }

    private void step(String name) {
        watcher.accept(name);
        turn.check();
    }

    private static byte[] unhex(String text) {
        byte[] raw = new byte[text.length() / 2];
        for (int i = 0; i < raw.length; i++) {
            raw[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        }
        return raw;
    }
}
