package io.fedrap.core;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/** The user's own data as a zip of readable JSON: all that the device knows, but no key. */
final class Export {
    private static final String README =
            "What this app's recommender keeps of you, on this device only.\n\n"
                    + "interactions.json    what you did: item, kind, weight and time\n"
                    + "hidden.json          items that are never to be recommended\n"
                    + "consents.json        what you agreed to, under which policy, and when\n"
                    + "ledger.json          the rounds this device took part in, written before"
                    + " anything was sent\n"
                    + "personal_items.json  how your own representation moves the score of items\n"
                    + "identity.json        the random number by which the coordinator knows this"
                    + " device\n"
                    + "status.json          where the device stands\n\n"
                    + "Keys are not in here. Times are in UTC.\n";

    private Export() {}

    /** There is the whole file, readable by its owner only, or the old one. */
    static Exported write(File file, DeviceState state, Status status, String passphrase)
            throws IOException {
        Map<String, String> texts = new LinkedHashMap<>();
        texts.put("README.txt", README);
        texts.put("interactions.json", Json.text(interactions(state)));
        texts.put("hidden.json", Json.text(new ArrayList<Object>(state.hidden())));
        texts.put("consents.json", Json.text(consents(state)));
        texts.put("ledger.json", Json.text(ledger(state)));
        texts.put("personal_items.json", Json.text(Collections.singletonMap("score_parts", state.personal())));
        texts.put("identity.json", Json.text(identity(state)));
        texts.put("status.json", Json.text(describe(status)));
        byte[] zip = zipped(texts);
        FolderFiles.writePrivate(file, passphrase == null ? zip : Moving.seal(zip, passphrase));
        List<String> names = Collections.unmodifiableList(new ArrayList<>(texts.keySet()));
        return new Exported(file, names, status.interactions, file.length());
    }

    private static byte[] zipped(Map<String, String> texts) throws IOException {
        ByteArrayOutputStream made = new ByteArrayOutputStream();
        try (ZipOutputStream zip = new ZipOutputStream(made)) {
            for (Map.Entry<String, String> one : texts.entrySet()) {
                zip.putNextEntry(new ZipEntry(one.getKey()));
                zip.write(one.getValue().getBytes(StandardCharsets.UTF_8));
                zip.closeEntry();
            }
        }
        return made.toByteArray();
    }

    private static List<Object> interactions(DeviceState state) {
        List<Object> all = new ArrayList<>();
        for (Interaction one : state.interactions()) {
            all.add(map("item", one.item, "kind", one.kind, "weight", one.weight, "at", time(one.at), "seconds", one.at));
        }
        return all;
    }

    private static List<Object> consents(DeviceState state) {
        List<Object> all = new ArrayList<>();
        for (Consent one : state.consents()) {
            all.add(map("recommend", one.recommend, "train", one.train, "measure", one.measure, "policy", one.policy, "at", time(one.at)));
        }
        return all;
    }

    private static List<Object> ledger(DeviceState state) {
        List<Object> all = new ArrayList<>();
        for (Ledger.Entry one : state.entries()) {
            all.add(
                    map(
                            "step", one.step, "round", one.round, "question", one.question, "noise", one.noise, "delta", one.delta,
                            "at", time(one.at)));
        }
        return all;
    }

    private static Map<String, Object> identity(DeviceState state) {
        Credentials known = state.credentials();
        return known == null ? map() : map("device", known.device, "task", known.task);
    }

    /** A status under the names that Python gives its fields. */
    static Map<String, Object> describe(Status one) {
        Statement said = one.privacy;
        Map<String, Object> privacy =
                said == null
                        ? null
                        : map(
                                "unit", said.unit, "adjacency", said.adjacency,
                                "separation", said.separation, "cap", said.cap, "noise", said.noise,
                                "clip", said.clip, "row_clip", said.rowClip,
                                "clip_adapts", said.clipAdapts, "delta", said.delta,
                                "epsilon", said.epsilon, "assumptions", said.assumptions,
                                "trusted", said.trusted);
        return map(
                "consented", one.consented, "fetching", one.fetching, "enrolled", one.enrolled,
                "interactions", one.interactions, "personal_items", one.personalItems,
                "release", one.release, "rounds", one.rounds, "epsilon", one.epsilon,
                "pending", one.pending, "dropped", one.dropped, "trainer", one.trainer,
                "trainer_reason", one.trainerReason, "blocked_by", one.blockedBy,
                "measuring", one.measuring, "answers", one.answers, "answers_epsilon", one.answersEpsilon,
                "privacy", privacy, "hidden", one.hidden, "set_aside", one.setAside,
                "aggregation", one.aggregation, "helper", one.helper, "experimental", one.experimental);
    }

    static Map<String, Object> map(Object... pairs) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            map.put((String) pairs[i], pairs[i + 1]);
        }
        return map;
    }

    /** ISO 8601; an app may give any number, and what is no date stays one. */
    private static Object time(double at) {
        try {
            return Instant.ofEpochMilli(Math.round(at * 1e3)).toString();
        } catch (DateTimeException error) {
            return at;
        }
    }
}
