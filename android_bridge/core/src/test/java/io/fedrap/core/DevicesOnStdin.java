package io.fedrap.core;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Several devices in one process, driven by tests/android: a JSON object per line, an answer for each.
 *
 * <p>Every request names a device and something to {@code do}; what that gives is in the answer, and
 * {@code error} with the kind of what was thrown.
 */
public final class DevicesOnStdin {
    private final Map<String, FedRap> open = new LinkedHashMap<>();
    private final Map<String, Double> clocks = new LinkedHashMap<>(); // by device

    public static void main(String[] arguments) throws Exception {
        DevicesOnStdin devices = new DevicesOnStdin();
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            try {
                answer = devices.answer((Map<?, ?>) Json.parse(line));
            } catch (FedRapException error) {
                answer = Export.map("error", error.kind().name(), "message", error.getMessage());
            } catch (RuntimeException error) {
                answer = Export.map("error", error.toString());
            }
            out.println(Json.text(answer).replace("\n", ""));
        }
    }

    private Object answer(Map<?, ?> asked) throws Exception {
        String name = (String) asked.get("device");
        FedRap device = open.get(name);
        switch ((String) asked.get("do")) {
            case "open":
                open.put(name, FedRap.open(config(asked)));
                return Export.map();
            case "clock":
                clocks.put(name, ((Number) asked.get("now")).doubleValue());
                return Export.map();
            case "close":
                open.remove(name).close();
                return Export.map();
            case "consent":
                boolean train = (Boolean) asked.get("train");
                boolean measure = Boolean.TRUE.equals(asked.get("measure"));
                device.consent(train, train, measure, "a policy of the app");
                return Export.map();
            case "answer":
                return device.answerQuestions();
            case "record":
                return Export.map("recorded", device.recordMany(interactions(asked)));
            case "run":
                return report(device.runRound(((Number) asked.get("wait")).doubleValue(), Conditions.ALWAYS));
            case "sync":
                device.sync();
                return Export.map();
            case "status":
                return Export.describe(device.status());
            case "recommend":
                return recommended(device.recommend(new Wish(((Long) asked.get("n")).intValue()).explain(true)));
            case "similar":
                return similar(device.similarItems((String) asked.get("item"), ((Long) asked.get("n")).intValue()));
            case "time":
                return times(device, (String) asked.get("what"), ((Long) asked.get("n")).intValue());
            case "erase":
                Erased receipt = open.remove(name).erase();
                return Export.map(
                        "deleted", receipt.deleted, "confirmed", receipt.coordinatorConfirmed,
                        "because", receipt.notConfirmedBecause);
            case "export":
                File to = new File((String) asked.get("file"));
                String secret = (String) asked.get("passphrase");
                return Export.map("files", (secret == null ? device.export(to) : device.export(to, secret)).files);
            case "import":
                File from = new File((String) asked.get("file"));
                return Export.map("new", device.importExport(from, (String) asked.get("passphrase")));
            default:
                throw new IllegalArgumentException("unknown: " + (String) asked.get("do"));
        }
    }

    /** Microseconds of each call, all of them: median and the like are the reader's. */
    private static Object times(FedRap device, String what, int n) {
        List<Object> taken = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            long start = System.nanoTime();
            if (what.equals("record")) {
                device.record("item-" + i);
            } else {
                device.recommend(20);
            }
            taken.add((System.nanoTime() - start) / 1e3);
        }
        return taken;
    }

    private Config config(Map<?, ?> asked) throws ReflectiveOperationException {
        Config config = new Config(new File((String) asked.get("folder")));
        config.server((String) asked.get("server")).token((String) asked.get("token"));
        config.withoutPrivacy(2);
        if (asked.containsKey("floor")) {
            List<?> floor = (List<?>) asked.get("floor");
            config.floor(
                    whole(floor, 0), whole(floor, 1), whole(floor, 2), real(floor, 3),
                    Double.POSITIVE_INFINITY, 100);
        }
        if (asked.containsKey("now")) {
            String name = (String) asked.get("device");
            clocks.put(name, ((Number) asked.get("now")).doubleValue());
            config.clock = () -> clocks.get(name);
        }
        if (asked.containsKey("measure")) { // of a module that this one does not know
            Class<?> measuring = Class.forName("io.fedrap.core.Measuring");
            config.measure((Measure) measuring.getConstructor().newInstance());
        }
        if (asked.containsKey("helper")) {
            Class<?> split = Class.forName("io.fedrap.core.Split");
            Object made = split.getConstructor(String.class).newInstance(asked.get("helper"));
            config.aggregation((Aggregation) made);
        }
        String death = (String) asked.get("die_at");
        config.watcher =
                step -> {
                    if (step.equals(death)) {
                        Runtime.getRuntime().halt(137);
                    }
                };
        return config;
    }

    private static List<Interaction> interactions(Map<?, ?> asked) {
        List<Interaction> all = new ArrayList<>();
        for (Object one : (List<?>) asked.get("items")) {
            List<?> parts = (List<?>) one;
            String item = (String) parts.get(0);
            all.add(new Interaction(item, "wish-listed", real(parts, 1), real(parts, 2)));
        }
        return all;
    }

    private static int whole(List<?> parts, int place) {
        return ((Number) parts.get(place)).intValue();
    }

    private static double real(List<?> parts, int place) {
        return ((Number) parts.get(place)).doubleValue();
    }

    private static Object report(RoundReport one) {
        return Export.map(
                "joined", one.joined, "blocked_by", one.blockedBy, "retry_after", one.retryAfter,
                "step", one.step, "sent_bytes", one.sentBytes, "loss", one.loss);
    }

    private static Object recommended(List<Recommendation> found) {
        List<Object> all = new ArrayList<>();
        for (Recommendation one : found) {
            List<Object> reasons = new ArrayList<>();
            for (Reason why : one.reasons) {
                reasons.add(
                        Export.map(
                                "item", why.item, "shared", why.shared, "personal", why.personal,
                                "sequence", why.sequence));
            }
            all.add(
                    Export.map(
                            "item", one.item, "shared", one.shared, "personal", one.personal,
                            "sequence", one.sequence, "popularity", one.popularity,
                            "reasons", reasons));
        }
        return all;
    }

    private static Object similar(List<Similar> found) {
        List<Object> all = new ArrayList<>();
        for (Similar one : found) {
            all.add(Export.map("item", one.item, "cosine", one.cosine));
        }
        return all;
    }
}
