package io.fedrap.core;

import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A coordinator in memory, made by hand: honest unless a test changes what it says. */
class MadeCoordinator implements Transport {
    static final byte[] TASK = new byte[16];
    static final int SIZE = 8;
    static final int DIM = 4;

    final List<String> calls = new ArrayList<>();
    final List<byte[]> sent = new ArrayList<>();
    final KeyPair authority = P256.generate();
    final TreeMap<Long, byte[]> log = new TreeMap<>(); // signed entries by version
    final KeyPair seal = P256.generate();
    final byte[] sealKey = P256.point(seal.getPublic());
    final List<byte[]> asked = new ArrayList<>(); // questions about quality
    final List<byte[]> answered = new ArrayList<>();
    final Map<String, Object> privacy = new LinkedHashMap<>();
    final Map<String, Object> method = new LinkedHashMap<>();
    final Map<String, FedRapException> failing = new LinkedHashMap<>(); // by verb
    final Map<String, Runnable> whileAnswering = new LinkedHashMap<>(); // by verb, once
    Runnable during = () -> {}; // an update is on its way
    Runnable beforeCatalogue = () -> {};
    int catalogueVersion = 1;
    byte[] round = new byte[16];
    long step = 1;
    long version = 1;
    String scoring = "solve";
    long minUpdates = 20;
    byte[] model; // null: that of the release
    final List<byte[]> attributePages = new ArrayList<>();
    long attributesVersion = 1;
    boolean spoil; // pages of attributes
    byte[] trend = new byte[0]; // of the release
    byte[] rollout; // what the release after the latest is staged by; null: there is none
    private byte[] staging; // while that one is made

    MadeCoordinator() {
        method.put("name", "solve");
        method.put("dim", DIM);
        privacy.put("noise", 2.0);
    }

    static UpdateRefused refusal(String code, Double retryAfter) {
        String after = retryAfter == null ? "" : ", \"retry_after\": " + retryAfter;
        String text = "{\"type\": \"urn:fedrap:problem:" + code + "\", \"detail\": \"no\"" + after + "}";
        return new UpdateRefused(Problem.read(409, text.getBytes(StandardCharsets.UTF_8), null));
    }

    /** A message of this type. */
    static byte[] raw(String type, Object... pairs) {
        Map<String, Object> fields = Fields.start(type);
        fields.putAll(Export.map(pairs));
        return MsgPack.encode(fields);
    }

    static FedRapException silence() {
        return new FedRapException(FedRapException.Kind.COORDINATOR_UNREACHABLE, "no answer");
    }

    private void called(String verb) {
        calls.add(verb);
        Runnable act = whileAnswering.remove(verb);
        if (act != null) {
            act.run();
        }
        if (failing.containsKey(verb)) {
            throw failing.get(verb);
        }
    }

    @Override
    public Enrolled enrol(String token, byte[] publicKey, Proof proof) {
        called("enrol");
        return Enrolled.decode(rawEnrolled());
    }

    byte[] rawEnrolled() {
        return raw(
                "enrolled", "device", new byte[16], "task", TASK,
                "authority", P256.point(authority.getPublic()));
    }

    /** An offer or a receipt, as the authority signs it. */
    byte[] rawSigned(byte[] body) {
        byte[] message = Bytes.join("fedrap/1 signed\n".getBytes(StandardCharsets.US_ASCII), body);
        return raw("signed", "body", body, "signature", Signer.sign(authority.getPrivate(), message));
    }

    /** The same release with its entry in the log, after those that were made before. */
    Map<String, Object> signed(Map<String, Object> release) {
        Map<String, Object> entry = Fields.start("release-entry");
        for (String name : new String[] {
            "task", "version", "step", "size", "dim", "catalogue", "scoring", "clip", "model"
        }) {
            if (release.containsKey(name)) {
                entry.put(name, release.get(name));
            }
        }
        Map.Entry<Long, byte[]> last = log.lowerEntry(version);
        entry.put("withheld", Bytes.sha256(new byte[0]));
        entry.put("before", last == null ? new byte[32] : Authority.digest(last.getValue()));
        if (staging != null) {
            entry.put("staged", staging);
        }
        byte[] raw = MsgPack.encode(entry);
        byte[] prefix = "fedrap/1 release-entry\n".getBytes(StandardCharsets.US_ASCII);
        byte[] made = Bytes.join(Signer.sign(authority.getPrivate(), Bytes.join(prefix, raw)), raw);
        log.put(version, made);
        release.put("entry", made);
        return release;
    }

    @Override
    public List<byte[]> log(long since) {
        called("log");
        return Authority.logged(rawLog(since));
    }

    byte[] rawLog(long since) {
        return raw("log", "entries", new ArrayList<>(log.tailMap(since, false).values()));
    }

    @Override
    public byte[] renew(Signer signer, Proof proof, long nonce) {
        called("renew");
        return new byte[0];
    }

    @Override
    public ReleaseMessage release(Long have) {
        called("release");
        return have != null && have == version ? null : ReleaseMessage.decode(rawRelease(), Integer.MAX_VALUE);
    }

    @Override
    public byte[] releaseOf(long wanted) {
        called("staged");
        if (rollout == null || wanted != version + 1) {
            throw refusal("not-found", null);
        }
        return rawStaged();
    }

    /** The release after the latest, which is for some devices only. */
    byte[] rawStaged() {
        rawRelease(); // its entry comes first
        version++;
        staging = rollout;
        try {
            return rawRelease();
        } finally {
            version--;
            staging = null;
        }
    }

    /** The bytes of the latest release. */
    byte[] rawRelease() {
        double[] numbers = new double[SIZE * DIM];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = Math.sin(staging == null ? i + version : i * i); // a staged one ranks otherwise
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
        Map<String, Object> release = Fields.start("release");
        release.putAll(Export.map(
                "task", TASK, "version", version, "step", Math.max(0, version - 1), "size", SIZE,
                "dim", DIM, "catalogue", catalogueVersion, "scoring", Export.map("name", scoring),
                "model", SharedMatrix.hash(items, null, Trend.of(trend, SIZE)), "scales", Bytes.bytes(items.scales),
                "bitmap", bitmap, "values", java.util.Arrays.copyOf(known, count)));
        if (trend.length > 0) {
            release.put("trend", trend);
        }
        return MsgPack.encode(signed(release));
    }

    @Override
    public ItemList catalogue(long start) {
        called("catalogue");
        beforeCatalogue.run();
        return ItemList.decode(rawCatalogue(start), Integer.MAX_VALUE);
    }

    static byte[] rawCatalogue(long start) {
        StringBuilder names = new StringBuilder();
        for (long row = start; row < SIZE; row++) {
            names.append("item-").append(row).append('\n');
        }
        byte[] items = names.toString().getBytes(StandardCharsets.UTF_8);
        return raw(
                "catalogue", "version", 1, "start", start, "count", SIZE - start, "items", items,
                "retired", new byte[0]);
    }

    @Override
    public byte[][] attributes() {
        called("attributes");
        byte[] digests = attributePages.isEmpty() ? new byte[0] : Bytes.sha256(attributePages.get(0));
        for (int i = 1; i < attributePages.size(); i++) {
            digests = Bytes.join(digests, Bytes.sha256(attributePages.get(i)));
        }
        int size = 0;
        for (byte[] page : attributePages) {
            size += page.length;
        }
        byte[] entry =
                raw(
                        "attributes-entry", "task", TASK, "release", version, "version", attributesVersion,
                        "count", attributePages.isEmpty() ? 0 : SIZE, "rows", 4, "size_bytes", size,
                        "names", attributePages.isEmpty() ? new ArrayList<>() : java.util.Arrays.asList("title", "kind"),
                        "pages", Bytes.sha256(digests));
        byte[] prefix = "fedrap/1 attributes-entry\n".getBytes(StandardCharsets.US_ASCII);
        byte[] signature = Signer.sign(authority.getPrivate(), Bytes.join(prefix, entry));
        return AttributesEntry.message(
                raw("attributes", "entry", Bytes.join(signature, entry), "pages", digests));
    }

    /** Titles and kinds of the items, four in a page; the last item has no kind. */
    void tellAttributes(String suffix) {
        attributePages.clear();
        for (int start = 0; start < SIZE; start += 4) {
            StringBuilder titles = new StringBuilder();
            StringBuilder kinds = new StringBuilder();
            for (int row = start; row < start + 4; row++) {
                titles.append("Title ").append(row).append(row < 4 ? suffix : "").append('\n');
                kinds.append(row == SIZE - 1 ? "" : row % 2 == 0 ? "even" : "odd").append('\n');
            }
            attributePages.add(
                    raw(
                            "attribute-page", "columns",
                            java.util.Arrays.asList(
                                    titles.toString().getBytes(StandardCharsets.UTF_8),
                                    kinds.toString().getBytes(StandardCharsets.UTF_8))));
        }
    }

    @Override
    public byte[] attributePage(byte[] digest) {
        called("page");
        for (byte[] page : attributePages) {
            if (java.util.Arrays.equals(Bytes.sha256(page), digest)) {
                return spoil ? new byte[] {1} : page;
            }
        }
        throw refusal("not-found", null);
    }

    @Override
    public Signed offer(Signer signer, long release, double wait) {
        called("offer");
        return Signed.decode(rawSigned(rawOffer()));
    }

    byte[] rawOffer() {
        byte[] plan =
                MsgPack.encode(
                        Export.map("method", method, "privacy", privacy, "min_updates", minUpdates));
        byte[] digest = model == null ? ReleaseMessage.decode(rawRelease(), Integer.MAX_VALUE).model : model;
        return raw(
                "offer", "task", TASK, "round", round, "step", Math.max(step, version), "plan", plan,
                "release", version, "model", digest, "seal_key", sealKey, "seal_id", new byte[8]);
    }

    @Override
    public Signed sendUpdate(Signer signer, byte[] round, byte[] body) {
        during.run();
        called("send");
        sent.add(body);
        return Signed.decode(rawSigned(raw("accepted", "round", round, "digest", Bytes.sha256(body))));
    }

    @Override
    public byte[] questions() {
        called("questions");
        List<Object> all = new ArrayList<>();
        for (byte[] one : asked) {
            Map<String, Object> signed = new LinkedHashMap<>();
            Fields parts = Fields.ofMessage(rawSigned(one), Fields.MAX_BYTES, "signed");
            signed.put("type", "signed");
            signed.put("body", parts.bytes("body"));
            signed.put("signature", parts.bytes("signature"));
            all.add(signed);
        }
        return raw("questions", "questions", all);
    }

    @Override
    public Signed sendAnswer(Signer signer, byte[] question, byte[] body) {
        called("answer");
        answered.add(body);
        return Signed.decode(rawSigned(raw("accepted", "round", question, "digest", Bytes.sha256(body))));
    }

    @Override
    public void forget(Signer signer) {
        called("forget");
    }

    @Override
    public void close() {}
}
