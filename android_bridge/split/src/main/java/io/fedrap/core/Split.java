package io.fedrap.core;

import java.security.SecureRandom;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Private aggregation by two servers, of which none sees one device's items: {@code config.aggregation(new
 * Split(helper))}. An app that asks for it refuses rounds of one server, and those of another helper.
 *
 * <p>It is experimental: no formal proof of the whole exists, and it wants outside review.
 */
public final class Split extends Aggregation {
    private static final String HELPER =
            "a helper is the line of hex that `fedrap-aggregator status` prints, or its 65 bytes";

    private final byte[] helper;

    /**
     * With the helper whose identity the app pins, in the text that {@code fedrap-aggregator status} prints.
     *
     * @throws IllegalArgumentException it is no such key
     */
    public Split(String helper) {
        try {
            this.helper = Authority.point(Arguments.present("helper", helper, HELPER));
        } catch (IllegalArgumentException error) {
            throw Arguments.wrong("helper", HELPER);
        }
    }

    @Override
    String name() {
        return "split";
    }

    @Override
    byte[] helper() {
        return helper.clone();
    }

    @Override
    Map<String, String> trusted() {
        Map<String, String> found = new LinkedHashMap<>();
        found.put(
                "the coordinator and the helper together",
                "not to collude: both together read updates");
        found.put(
                "the coordinator alone",
                "who took part and when; of updates random numbers, of a sum one that has the helper's noise");
        found.put(
                "the helper alone", "that somebody took part; random numbers, and its own share of sums");
        found.put(
                "other users and the public",
                "nothing: they see releases, with the noise of both");
        return found;
    }

    @Override
    String whyNot(Offer offer) {
        try {
            sealKey(offer);
            return null;
        } catch (FedRapException error) {
            return Eligibility.ANOTHER_HELPER;
        }
    }

    /** The key of the helper for this round, once the pinned identity is found to have signed it (13.1). */
    private byte[] sealKey(Offer offer) {
        if (offer.helper == null) {
            throw FedRapException.malformed("an offer without a helper");
        }
        offer.helper.text("name", 1, 100);
        return checked(
                offer.helper, "fedrap/2 helper\n", offer.task, offer.round, Bytes.bigEndian(offer.step, 4),
                offer.model, Bytes.sha256(offer.plan));
    }

    /** The key of a helper, once the pinned identity is found to have signed it after these fields. */
    private byte[] checked(Fields given, String label, byte[]... fields) {
        byte[] key = given.point("seal_key");
        byte[] id = given.bytes("seal_id", 8, 8);
        if (!Arrays.equals(Arrays.copyOf(Bytes.sha256(key), 8), id)) {
            throw FedRapException.malformed("the helper's key has another name");
        }
        byte[][] all = Arrays.copyOf(fields, fields.length + 1);
        all[fields.length] = key;
        byte[] signature = given.bytes("signature", Signer.SIGNATURE_BYTES, Signer.SIGNATURE_BYTES);
        Signer.verify(P256.publicKey(helper), Bytes.framed(label, all), signature);
        return key;
    }

    /** The key of the helper for this question, once the pinned identity has signed what holds of it (14.11). */
    private byte[] sealKey(Fields question, int numbers, long limit) {
        Fields given = question.inner("helper");
        given.text("name", 1, 100);
        byte[] terms =
                Bytes.join(
                        Bytes.bigEndian(numbers, 4), Bytes.bigEndian(limit, 4),
                        Bytes.bigEndian(Double.doubleToLongBits(question.number("noise", 0, 1e4)), 8),
                        Bytes.bigEndian(question.integer("least", 1, 1_000_000_000), 4));
        return checked(given, "fedrap/2 question\n", question.id16("task"), question.id16("question"), terms);
    }

    @Override
    byte[] answer(Fields question, byte[] device, byte[] answer, long limit) {
        int count = answer.length / 4;
        byte[] key;
        try {
            key = sealKey(question, count, limit);
        } catch (FedRapException error) {
            return null;
        }
        SecureRandom random = new SecureRandom();
        Terms terms = new Terms(question.id16("question"), count, limit);
        byte[] secret = new byte[32];
        random.nextBytes(secret);
        SmallNumbers numbers = SmallNumbers.of(answer, terms, RoundShare.uniform(count, random));
        Report report = new Report(terms, numbers, secret);
        Map<String, Object> map = Fields.start("split-answer");
        map.put("task", question.id16("task"));
        map.put("question", terms.round);
        map.put("device", device);
        map.put("seal_id", question.bytes("seal_id", 8, 8));
        map.put("report", report.id);
        map.put("public", report.open);
        map.put("leader", Hpke.seal(question.point("seal_key"), info(question, report, 0), report.leader));
        map.put("helper", Hpke.seal(key, info(question, report, 1), report.helper));
        return MsgPack.encode(map);
    }

    /** Each share can be read by its server alone (14.10). */
    private static byte[] info(Fields question, Report report, int role) {
        return Bytes.framed(
                "fedrap/2 answer", question.id16("task"), question.id16("question"), report.id,
                new byte[] {(byte) role});
    }

    @Override
    byte[] update(
            Offer offer, Plan plan, byte[] device, int items, RowUpdate update, SecureRandom random) {
        Terms terms = new Terms(offer.round, plan, items);
        double[] uniform = RoundShare.uniform(SmallNumbers.uniformCount(terms), random);
        byte[] secret = new byte[32];
        random.nextBytes(secret);
        Report report = new Report(terms, SmallNumbers.of(update, terms, uniform), secret);
        byte[] digest = Bytes.sha256(offer.plan);
        byte[] leads = Hpke.seal(offer.sealKey, info(offer, digest, report, 0), report.leader);
        byte[] helps = Hpke.seal(sealKey(offer), info(offer, digest, report, 1), report.helper);
        return encode(offer, digest, device, report.id, report.open, leads, helps);
    }

    /** Each share can be read by its server alone (13.3). */
    private static byte[] info(Offer offer, byte[] plan, Report report, int role) {
        return Bytes.framed(
                "fedrap/2 share", offer.task, offer.round, plan, report.id, new byte[] {(byte) role});
    }

    /** The bytes of a split-update. */
    static byte[] encode(
            Offer offer, byte[] plan, byte[] device, byte[] report, byte[] open, byte[] leader,
            byte[] helper) {
        Map<String, Object> map = Fields.start("split-update");
        map.put("task", offer.task);
        map.put("round", offer.round);
        map.put("step", offer.step);
        map.put("model", offer.model);
        map.put("plan", plan);
        map.put("device", device);
        map.put("seal_id", offer.sealId);
        map.put("report", report);
        map.put("public", open);
        map.put("leader", leader);
        map.put("helper", helper);
        return MsgPack.encode(map);
    }

    @Override
    public String toString() {
        return "Split(" + Bytes.hex(helper) + ")";
    }
}
