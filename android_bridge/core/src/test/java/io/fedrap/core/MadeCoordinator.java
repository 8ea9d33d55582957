package io.fedrap.core;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A coordinator in memory, made by hand: honest unless a test changes what it says. */
class MadeCoordinator implements Transport {
    static final byte[] TASK = new byte[16];
    static final int SIZE = 8;
    static final int DIM = 4;

    final List<String> calls = new ArrayList<>();
    final List<byte[]> sent = new ArrayList<>();
    final byte[] sealKey = P256.point(P256.generate().getPublic());
    final Map<String, Object> privacy = new LinkedHashMap<>();
    final Map<String, Object> method = new LinkedHashMap<>();
    final Map<String, FedRapException> failing = new LinkedHashMap<>(); // by verb
    Runnable during = () -> {}; // an update is on its way
    byte[] round = new byte[16];
    long step = 1;
    long version = 1;
    long minUpdates = 2;
    byte[] model; // null: that of the release

    MadeCoordinator() {
        method.put("name", "solve");
        method.put("dim", DIM);
    }

    static UpdateRefused refusal(String code, Double retryAfter) {
        String after = retryAfter == null ? "" : ", \"retry_after\": " + retryAfter;
        String text = "{\"type\": \"urn:fedrap:problem:" + code + "\", \"detail\": \"no\"" + after + "}";
        return new UpdateRefused(Problem.read(409, text.getBytes(StandardCharsets.UTF_8), null));
    }

    static FedRapException silence() {
        return new FedRapException(FedRapException.Kind.COORDINATOR_UNREACHABLE, "no answer");
    }

    private void called(String verb) {
        calls.add(verb);
        if (failing.containsKey(verb)) {
            throw failing.get(verb);
        }
    }

    @Override
    public Enrolled enrol(String token, byte[] publicKey, Proof proof) {
        called("enrol");
        return new Enrolled(new byte[16], TASK, new byte[0], new byte[0]);
    }

    @Override
    public Renewed renew(Signer signer, Proof proof, long nonce) {
        called("renew");
        return new Renewed(new byte[0]);
    }

    @Override
    public News release(Long have) {
        called("release");
        return have != null && have == version ? null : new News(release());
    }

    Release release() {
        double[] numbers = new double[SIZE * DIM];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = Math.sin(i + version);
        }
        QuantizedRows items = QuantizedRows.of(numbers, DIM, null);
        byte[] all = items.values;
        byte[] bitmap = new byte[all.length / 8];
        byte[] known = new byte[all.length];
        int count = 0;
        for (int i = 0; i < all.length; i++) {
            if (all[i] != 0) {
                bitmap[i / 8] |= 1 << i % 8;
                known[count++] = all[i];
            }
        }
        Scoring scoring = Scoring.from(Fields.ofValue(MsgPack.encode(Export.map("name", "solve")), 100));
        byte[] digest = SharedMatrix.hash(items);
        return new Release(
                TASK, version, version - 1, SIZE, DIM, 1, scoring, 0, digest,
                LittleEndian.bytes(items.scales), bitmap, java.util.Arrays.copyOf(known, count), new byte[0]);
    }

    @Override
    public Catalogue catalogue(long start) {
        called("catalogue");
        StringBuilder names = new StringBuilder();
        for (long row = start; row < SIZE; row++) {
            names.append("item-").append(row).append('\n');
        }
        byte[] items = names.toString().getBytes(StandardCharsets.UTF_8);
        return new Catalogue(1, start, SIZE - start, items, new byte[0]);
    }

    @Override
    public Offer offer(Signer signer, long release, double wait) {
        called("offer");
        byte[] plan =
                MsgPack.encode(
                        Export.map("method", method, "privacy", privacy, "min_updates", minUpdates));
        byte[] digest = model == null ? release().model : model;
        return new Offer(TASK, round, step, plan, version, digest, sealKey, new byte[8], 60);
    }

    @Override
    public Accepted sendUpdate(Signer signer, byte[] round, byte[] body) {
        during.run();
        called("send");
        sent.add(body);
        return new Accepted(round, Bytes.sha256(body));
    }

    @Override
    public void forget(Signer signer) {
        called("forget");
    }

    @Override
    public void close() {}
}
