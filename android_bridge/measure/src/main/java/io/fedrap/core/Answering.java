package io.fedrap.core;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * Questions about quality: which this device answers, when, and what becomes of the answer.
 *
 * <p>Everybody gets the same list of questions, without a device id. A device answers each once, at a moment
 * that only it can compute, whatever it has to say by then: neither the fact nor the hour of an answer tells
 * anything about the user. The ledger's entry and the bytes are kept before anything leaves, and the same
 * bytes are sent again after a crash.
 *
 * <p>A question of a staged release is answered by all devices as well; those in its share, which each draws for
 * itself, fetch that release and use it beside the full one until a newer full one comes.
 */
final class Answering {
    private final DeviceState state;
    private final Transport transport;
    private final Credentials credentials;
    private final byte[] authority;
    private final Ledger.Floor floor;
    private final Aggregation aggregation; // null: one server

    Answering(
            DeviceState state, Transport transport, Credentials credentials, byte[] authority,
            Config config) {
        this.state = state;
        this.transport = transport;
        this.credentials = credentials;
        this.authority = authority;
        this.floor = config.floor;
        this.aggregation = config.aggregation;
    }

    /** Answer what is to be answered now; how many questions that were. Throws as a round does. */
    int run() {
        for (String left : state.answers()) {
            send(Bytes.unhex(left), state.answerTo(left));
        }
        int answered = 0;
        for (Signed signed : signed(transport.questions())) {
            Question question = opened(signed);
            if (question == null) {
                continue;
            }
            join(question);
            if (isDue(question)) {
                byte[] body = body(question, Measuring.answer(state, question));
                if (body == null) { // another helper sums it
                    continue;
                }
                if (!state.commitAnswer(entry(question, state.now()), body)) {
                    break;
                }
                send(question.question, body);
                answered++;
            }
        }
        return answered;
    }

    /** The question, if it is for this device at all; otherwise null. */
    private Question opened(Signed signed) {
        byte[] raw = Authority.open(authority, signed, "question");
        Question question;
        try {
            question = Question.decode(raw);
        } catch (FedRapException error) {
            throw Authority.notRead(error);
        }
        boolean open = Arrays.equals(question.task, credentials.task) && state.now() < question.endsAt;
        boolean fits = question.isSplit == (aggregation != null);
        return open && fits && question.isAnswerable() ? question : null;
    }

    private byte[] body(Question asked, byte[] answer) {
        return aggregation == null
                ? sealed(asked, credentials.device, answer)
                : aggregation.answer(asked.fields, credentials.device, answer, asked.limit());
    }

    /** Does this device answer it now? */
    private boolean isDue(Question question) {
        double now = state.now();
        return whyNot(state.entries(), question, floor, now) == null
                && now >= question.moment(credentials.secret);
    }

    /**
     * Where this device is in the share of a staged release, fetch that and use it (14.7).
     *
     * @throws FedRapException BROKEN_MODEL, SIGNATURE_INVALID, FORKED_LOG: it is not what the authority staged.
     */
    private void join(Question question) {
        Question.Trial trial = question.trial;
        long version = question.releases.get(0);
        LocalModel staged = state.staged();
        if (trial == null || staged != null && staged.common.version == version) {
            return;
        }
        LocalModel full = state.model();
        boolean beside =
                ReleaseSync.trusted(full, authority).length > 0 && full.common.version == trial.base;
        if (!beside || !trial.has(credentials.secret)) { // the next sync may bring the one that it stands beside
            return;
        }
        byte[] raw;
        try {
            raw = transport.releaseOf(version);
        } catch (UpdateRefused refused) {
            if (refused.is("not-found")) { // it ended a moment ago
                return;
            }
            throw refused;
        }
        ReleaseMessage message;
        try {
            message = ReleaseMessage.decode(raw, raw.length);
        } catch (FedRapException error) {
            throw Authority.notRead(error);
        }
        if (message.isDelta() || message.version != version || !Arrays.equals(message.task, credentials.task)) {
            throw FedRapException.broken("another release than the one that is staged");
        }
        ReleaseEntry entry = Authority.checkRelease(authority, message);
        if (!Arrays.equals(entry.staged, trial.rollout)) {
            throw Authority.unsigned(entry, "is not staged by this roll-out");
        }
        state.adoptStaged(raw, full);
    }

    /** Until the coordinator has said yes or a final no, the bytes are kept. */
    private void send(byte[] question, byte[] body) {
        try {
            Signed receipt = transport.sendAnswer(new Signer(credentials, state), question, body);
            Authority.checkReceipt(authority, receipt, question, body);
        } catch (UpdateRefused refused) {
            if (!refused.isFinal()) {
                throw refused;
            }
        }
        state.forgetAnswer(Bytes.hex(question));
    }

    /** The questions that are open, each as signed; throws COORDINATOR_UNREACHABLE. */
    private static List<Signed> signed(byte[] raw) {
        try {
            return decode(raw);
        } catch (FedRapException error) {
            throw Authority.notRead(error);
        }
    }

    /** Throws as {@link Fields#ofMessage}. */
    static List<Signed> decode(byte[] raw) {
        List<Signed> found = new ArrayList<>();
        for (Fields one : Fields.ofMessage(raw, Fields.MAX_BYTES, "questions").inners("questions", 16)) {
            if (!one.text("type", 0, 40, "signed").equals("signed")) {
                throw one.refused("type", "is not signed");
            }
            found.add(new Signed(one));
        }
        return found;
    }

    private static Ledger.Entry entry(Question asked, double at) {
        return new Ledger.Entry(0, asked.question, asked.noise, asked.delta, at, null, true);
    }

    /** An answer that only the holder of the question's key can read; all else is bound into it (14.5). */
    static byte[] sealed(Question asked, byte[] device, byte[] plaintext) {
        byte[] info = Bytes.framed("fedrap/1 answer", asked.task, asked.question, device, asked.sealId);
        byte[] sealed = Hpke.seal(asked.sealKey, info, plaintext);
        return encode(asked.task, asked.question, device, asked.sealId, sealed);
    }

    /** The bytes of an answer. */
    static byte[] encode(byte[] task, byte[] question, byte[] device, byte[] sealId, byte[] sealed) {
        Map<String, Object> map = Fields.start("answer");
        map.put("task", task);
        map.put("question", question);
        map.put("device", device);
        map.put("seal_id", sealId);
        map.put("sealed", sealed);
        return MsgPack.encode(map);
    }

    /** Null when the device agrees to a question; otherwise a word for what breaks the rule. */
    static String whyNot(
            List<Ledger.Entry> entries, Question asked, Ledger.Floor floor, double now) {
        List<Ledger.Entry> recent = Ledger.since(entries, now - 86_400.0 * floor.windowDays);
        List<Ledger.Entry> given = Ledger.answers(recent);
        for (Ledger.Entry one : Ledger.answers(entries)) {
            if (Arrays.equals(one.round, asked.question)) {
                return "already-answered";
            }
        }
        if (asked.least < floor.minUpdates) {
            return "floor-cohort";
        }
        if (given.size() >= asked.budget) {
            return "ledger-cap";
        }
        Ledger.Entry added = entry(asked, now);
        if (Ledger.exceeds(given, added, floor.maxQuestionEpsilon) || Ledger.exceeds(recent, added, floor.maxEpsilon)) {
            return "floor-epsilon";
        }
        double most = Math.max(floor.maxEpsilon, floor.maxLifetimeEpsilon);
        return Ledger.exceeds(entries, added, most) ? "floor-lifetime" : null;
    }
}
