package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;

/**
 * One round from this device's side, resumable at each step.
 *
 * <p>enrol once, renew in time; send what is left over; sync; ask for a slot; check the own ledger;
 * compute; one transaction; send. A crash before the transaction means that nothing happened; a crash
 * after it means that the same bytes are sent again.
 */
final class RoundRunner {
    private static final double LONGEST_WAIT = 60.0; // seconds; proxies cut longer requests off

    private final DeviceState state;
    private final Transport transport;
    private final Membership membership;
    private final LocalTrainer trainer;
    private final Aggregation aggregation; // null: one server
    private final Ledger.Floor floor;
    private final byte[] pinned; // null: the app pins no authority
    private final double wait;
    private final Cancellation cancellation;
    private final Consumer<String> watcher; // is told where a round is; a test dies there

    RoundRunner(
            DeviceState state,
            Transport transport,
            Membership membership,
            Config config,
            byte[] pinned,
            double wait,
            Cancellation cancellation) {
        this.state = state;
        this.transport = transport;
        this.membership = membership;
        this.trainer = config.trainer;
        this.aggregation = config.aggregation;
        this.floor = config.floor;
        this.pinned = pinned;
        this.wait = Math.min(Math.max(0.0, wait), LONGEST_WAIT);
        this.cancellation = cancellation;
        this.watcher = config.watcher;
    }

    /**
     * Join a round if there is one for this device; renews its certificate where need be.
     *
     * @throws FedRapException COORDINATOR_UNREACHABLE, BROKEN_MODEL, ANOTHER_AUTHORITY,
     *     SIGNATURE_INVALID, FORKED_LOG, STOPPED or {@link UpdateRefused}, for the caller to turn into a
     *     report.
     */
    RoundReport run() {
        Membership.authorityOf(state.credentials(), pinned); // before anything is sent
        Credentials credentials = membership.credentials();
        if (credentials == null) {
            return RoundReport.blocked(Eligibility.NO_TOKEN);
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
        Signer signer = new Signer(credentials, state);
        byte[] authority = Membership.authorityOf(credentials, pinned);
        List<String> left = state.outbox();
        if (!left.isEmpty()) {
            byte[] body = state.outgoing(left.get(0));
            send(signer, authority, left.get(0), body);
            return RoundReport.joined(null, body.length, null);
        }
        ReleaseSync.sync(state, transport, authority);
        LocalModel inUse = state.model();
        if (inUse != null && state.history().rows.length == 0) {
            return RoundReport.blocked(Eligibility.NOTHING_TO_SHARE); // an empty share costs a slot too
        }
        if (inUse != null && !inUse.header.scoring.isSolve()) {
            return RoundReport.blocked(Eligibility.UNSUPPORTED_METHOD); // and so does one not computed
        }
        step("before-offer");
        Offer offer = requestOffer(signer, authority);
        step("after-offer");
        LocalModel model = state.model();
        if (model == null) {
            return RoundReport.blocked(Eligibility.NO_RELEASE);
        }
        if (offer.beside != null) { // 9.8
            try {
                model = ReleaseSync.successor(state, transport, model, offer, authority);
            } catch (FedRapException error) {
                throw cannotFollow(error);
            }
        }
        Plan plan = plan(offer);
        String why = whyRefuse(offer, plan, credentials, model);
        if (why != null) {
            boolean changed = why.equals(Eligibility.POLICY_CHANGED);
            return RoundReport.declined(
                    why, offer.step, changed ? new Statement(plan.privacy, aggregation) : null);
        }
        return follow(signer, authority, offer, plan, credentials, model);
    }

    private RoundReport follow(
            Signer signer,
            byte[] authority,
            Offer offer,
            Plan plan,
            Credentials credentials,
            LocalModel model) {
        RoundShare share;
        byte[] body;
        try {
            share = share(plan, model);
            SecureRandom random = new SecureRandom();
            body =
                    aggregation == null
                            ? Hpke.update(
                                    offer, credentials.device, share.plaintext(plan.privacy, random))
                            : aggregation.update(
                                    offer, plan, credentials.device, model.common.size(), share.update,
                                    random);
        } catch (FedRapException error) {
            if (error.kind() == Kind.BROKEN_MODEL) {
                return RoundReport.declined(Eligibility.BROKEN_RELEASE, offer.step, null);
            }
            if (error.kind() == Kind.NOT_FINITE) {
                state.countDropped();
                return RoundReport.declined(Eligibility.DIVERGED, offer.step, null);
            }
            throw cannotFollow(error);
        }
        cancellation.check();
        step("before-commit");
        Ledger.Entry entry = new Ledger.Entry(offer.step, offer.round, state.now(), plan.privacy);
        if (!state.commitRound(entry, body)) { // taken back while the round was being computed
            return RoundReport.declined(Eligibility.NO_CONSENT, offer.step, null);
        }
        step("before-send");
        send(signer, authority, Bytes.hex(offer.round), body);
        return RoundReport.joined(offer.step, body.length, share.loss);
    }

    /** A slot, waited for; when a release came out in between, fetch it and ask again. */
    private Offer requestOffer(Signer signer, byte[] authority) {
        long until = System.nanoTime() + (long) (wait * 1e9);
        int tries = wait > 0 ? 3 : 2;
        while (true) {
            double left = Math.max(0.0, (until - System.nanoTime()) / 1e9);
            LocalModel inUse = state.model();
            try {
                long held = inUse == null ? 0 : inUse.common.version;
                return offer(authority, transport.offer(signer, held, left));
            } catch (UpdateRefused refused) {
                tries--;
                if (tries == 0 || !refused.is("stale-model")) {
                    throw refused;
                }
            }
            ReleaseSync.sync(state, transport, authority);
        }
    }

    private static Offer offer(byte[] authority, Signed signed) {
        byte[] raw = Authority.open(authority, signed, "offer");
        try {
            return Offer.decode(raw);
        } catch (FedRapException error) {
            throw Authority.notRead(error);
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
    private String whyRefuse(Offer offer, Plan plan, Credentials credentials, LocalModel model) {
        if (!Arrays.equals(offer.task, credentials.task)) {
            return "another-task";
        }
        if (!plan.isSolve()) {
            return Eligibility.UNSUPPORTED_METHOD;
        }
        boolean sameVersion = offer.release == model.header.version;
        if (sameVersion && !Arrays.equals(offer.model, model.header.model)) {
            throw Authority.forked(
                    "an offer for another C of release " + offer.release + " than the one in use");
        }
        if (offer.step <= model.header.step) { // 9.4: signed, but of a round that is over
            return Eligibility.OLD_OFFER;
        }
        if (!sameVersion || plan.method().dim != model.common.dim() || !model.header.scoring.isSolve()) {
            return "stale-model";
        }
        SequenceMethod part = plan.method().sequence;
        SequenceRows rows = model.common.sequence;
        boolean fits =
                part == null
                        || rows != null
                                && rows.dim() == part.dim
                                && rows.kernelCount() == part.kernels.count();
        if (!fits) {
            return "stale-model";
        }
        List<Ledger.Entry> entries = state.entries();
        for (Ledger.Entry entry : entries) {
            // An entry is written with the bytes to send, and those were answered: the outbox is empty.
            if (Arrays.equals(entry.round, offer.round)) {
                return Eligibility.ALREADY_IN_ROUND;
            }
        }
        String why =
                Ledger.whyNot(
                        entries, offer.step, plan, floor, state.now(), state.consentedAt());
        if (why == null && (plan.split == null) != (aggregation == null)) { // 13.1
            return Eligibility.ANOTHER_AGGREGATION;
        }
        return why != null || aggregation == null ? why : aggregation.whyNot(offer);
    }

    private RoundShare share(Plan plan, LocalModel model) {
        return RoundShare.compute(
                plan, model.common, model.gram(), state.history(), state.now(), trainer,
                new SecureRandom());
    }

    /** Such as a sealing key that is no point of the curve; a trainer's own fault stays one. */
    private static FedRapException cannotFollow(FedRapException error) {
        if (!error.isOneOf(Kind.MALFORMED_MESSAGE, Kind.WRONG_SHAPE)) {
            return error;
        }
        return FedRapException.unreachable(
                "an offer that cannot be followed: " + error.getMessage(), error);
    }

    /** Until the coordinator has said yes or a final no, the bytes stay in the outbox. */
    private void send(Signer signer, byte[] authority, String round, byte[] body) {
        Signed signed;
        try {
            signed = transport.sendUpdate(signer, Bytes.unhex(round), body);
        } catch (UpdateRefused refused) {
            if (refused.isFinal()) {
                state.forgetOutgoing(round);
            }
            throw refused;
        }
        Authority.checkReceipt(authority, signed, Bytes.unhex(round), body);
        watcher.accept("after-send"); // what was answered is forgotten, also when it was stopped
        state.forgetOutgoing(round);
        watcher.accept("after-forget");
    }

    private void step(String name) {
        watcher.accept(name);
        cancellation.check();
    }
}
