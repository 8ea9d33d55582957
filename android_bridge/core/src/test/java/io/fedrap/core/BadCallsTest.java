package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The table of calls that both libraries refuse, with the same words; a wrong call costs nothing. */
class BadCallsTest {
    /** What the compiler refuses already. */
    private static final class CannotBeSaid extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    @TempDir Path folder;

    @Test
    void everyCaseOfTheTableIsRefusedWithItsWordsAndCostsNothing() {
        try (FedRap device = FedRap.open(new Config(folder.toFile()))) {
            device.consent(true, "v1");
            device.record("item-1");
            device.hide("item-7");
        }
        int ran = 0;
        for (Vectors.Case one : Vectors.cases("bad_calls")) {
            Map<?, ?> given = (Map<?, ?>) one.get("arguments");
            FedRap device = FedRap.open(new Config(folder.toFile()));
            try {
                call(device, one.text("call"), given);
                throw new AssertionError("nothing was refused: " + one.text("call") + given);
            } catch (CannotBeSaid error) {
                continue;
            } catch (IllegalArgumentException error) {
                assertEquals(expected(one), error.getMessage(), () -> one.text("call") + given);
                ran++;
            } finally {
                device.close();
            }
            try (FedRap again = FedRap.open(new Config(folder.toFile()))) {
                assertEquals(1, again.status().interactions);
                assertEquals(1, again.status().hidden);
                assertTrue(again.status().consented);
                assertTrue(again.status().setAside.isEmpty());
            }
        }
        assertTrue(ran >= 80, ran + " cases ran");
    }

    /** An interaction of many is checked where it is made, so it has no place in a list yet. */
    private static String expected(Vectors.Case one) {
        return one.text("error").replaceFirst("^interactions\\[\\d+\\] ", "");
    }

    private void call(FedRap device, String call, Map<?, ?> given) {
        switch (call) {
            case "record":
                device.record(
                        new Interaction(
                                text(given, "item", "tea"), text(given, "kind", "view"),
                                number(given, "weight", 1), time(given)));
                break;
            case "record_many":
                device.recordMany(interactions(given));
                break;
            case "hide":
                device.hide(text(given, "item", "tea"));
                break;
            case "unhide":
                device.unhide(text(given, "item", "tea"));
                break;
            case "remove":
                device.remove(text(given, "what", "tea"));
                break;
            case "because":
                device.because(text(given, "item", "tea"));
                break;
            case "attributes":
                device.attributes(text(given, "item", "tea"));
                break;
            case "similar_items":
                device.similarItems(text(given, "item", "tea"), whole(given, "n"));
                break;
            case "popular":
                device.popular(whole(given, "n"));
                break;
            case "trending":
                device.trending(whole(given, "n"));
                break;
            case "recommend":
                device.recommend(wish(given));
                break;
            case "consent":
                device.consent(
                        flag(given, "recommend", true), flag(given, "train", true),
                        flag(given, "measure", false), text(given, "policy", "v1"));
                break;
            case "run_round":
                device.runRound(number(given, "wait", 0), Conditions.ALWAYS);
                break;
            case "export":
                try {
                    String path = text(given, "path", "x");
                    device.export(path == null ? null : new File(path));
                } catch (java.io.IOException error) {
                    throw new AssertionError(error);
                }
                break;
            default:
                value(call, given);
        }
    }

    private void value(String call, Map<?, ?> given) {
        switch (call) {
            case "open":
                config(given);
                break;
            case "retention":
                new Config(folder.toFile())
                        .retention(
                                whole(given, "max_interactions"),
                                number(given, "max_age_days", 1));
                break;
            case "floor":
                new Config(folder.toFile())
                        .floor(
                                whole(given, "separation"), whole(given, "cap"),
                                whole(given, "min_updates"), number(given, "min_noise", 0),
                                number(given, "max_epsilon", 1), number(given, "max_clip", 1))
                        .floorLifetime(
                                number(given, "window_days", 1),
                                number(given, "max_lifetime_epsilon", 1))
                        .floorQuestions(number(given, "max_question_epsilon", 1));
                break;
            case "kinds":
                new Kinds().counts("view", number(given, "view", 1));
                break;
            default:
                throw new AssertionError("no such call: " + call);
        }
    }

    private Wish wish(Map<?, ?> given) {
        Wish wish = new Wish(whole(given, "n"));
        wish.filterSeen(flag(given, "filter_seen", true)).explain(flag(given, "explain", false));
        if (given.containsKey("candidates")) {
            wish.candidates(texts(given.get("candidates")));
        }
        if (given.containsKey("exclude")) {
            wish.exclude(texts(given.get("exclude")));
        }
        if (given.containsKey("filter")) {
            if (!(given.get("filter") instanceof Map)) {
                throw new CannotBeSaid();
            }
            for (Map.Entry<?, ?> one : ((Map<?, ?>) given.get("filter")).entrySet()) {
                if (one.getValue() != null) { // a number in place of a text
                    throw new CannotBeSaid();
                }
                wish.where((String) one.getKey(), (String[]) null);
            }
        }
        if (given.containsKey("boost")) {
            wish.boost(numbers(given.get("boost")));
        }
        return wish.diversity(number(given, "diversity", 0));
    }

    private void config(Map<?, ?> given) {
        String path = text(given, "path", folder.toString());
        Config config = new Config(path == null ? null : new File(path));
        config.app(text(given, "app", "app")).fetch(text(given, "fetch", "consented"));
        config.profile(text(given, "profile", "ann")).server(text(given, "server", "https://x"));
        config.attributes(flag(given, "attributes", false));
        config.offline(flag(given, "offline", false)).allowHttp(flag(given, "allow_http", false));
        for (String other : new String[] {"trainer", "token", "key", "on_error", "floor", "retention", "kinds"}) {
            if (given.containsKey(other)) {
                throw new CannotBeSaid();
            }
        }
    }

    private static String text(Map<?, ?> given, String name, String good) {
        Object value = given.containsKey(name) ? given.get(name) : good;
        if (value != null && !(value instanceof String)) {
            throw new CannotBeSaid();
        }
        return (String) value;
    }

    private static boolean flag(Map<?, ?> given, String name, boolean good) {
        Object value = given.containsKey(name) ? given.get(name) : (Object) good;
        if (!(value instanceof Boolean)) {
            throw new CannotBeSaid();
        }
        return (Boolean) value;
    }

    private static int whole(Map<?, ?> given, String name) {
        Object value = given.containsKey(name) ? given.get(name) : (Object) 5L;
        if (!(value instanceof Long)) {
            throw new CannotBeSaid();
        }
        return ((Long) value).intValue();
    }

    private static double number(Map<?, ?> given, String name, double good) {
        return given.containsKey(name) ? number(given.get(name)) : good;
    }

    private static double number(Object value) {
        if (value instanceof Map && ((Map<?, ?>) value).containsKey("number")) {
            String said = (String) ((Map<?, ?>) value).get("number");
            return said.equals("inf") ? Double.POSITIVE_INFINITY : Double.NaN;
        }
        if (!(value instanceof Number)) {
            throw new CannotBeSaid();
        }
        return ((Number) value).doubleValue();
    }

    /** Where nothing is said the time is NaN here, so that NaN cannot be refused. */
    private static double time(Map<?, ?> given) {
        double at = number(given, "at", Double.NaN);
        if (given.containsKey("at") && Double.isNaN(at)) {
            throw new CannotBeSaid();
        }
        return at;
    }

    private static Collection<String> texts(Object value) {
        if (value == null) {
            return null;
        }
        if (!(value instanceof List)) {
            throw new CannotBeSaid();
        }
        List<String> found = new ArrayList<>();
        for (Object one : (List<?>) value) {
            if (one != null && !(one instanceof String)) {
                throw new CannotBeSaid();
            }
            found.add((String) one);
        }
        return found;
    }

    private static Map<String, Double> numbers(Object value) {
        if (!(value instanceof Map)) {
            throw new CannotBeSaid();
        }
        Map<String, Double> found = new LinkedHashMap<>();
        for (Map.Entry<?, ?> one : ((Map<?, ?>) value).entrySet()) {
            found.put((String) one.getKey(), number(one.getValue()));
        }
        return found;
    }

    private static List<Interaction> interactions(Map<?, ?> given) {
        if (!(given.get("interactions") instanceof List)) {
            throw new CannotBeSaid();
        }
        List<Interaction> found = new ArrayList<>();
        for (Object one : (List<?>) given.get("interactions")) {
            List<?> parts = (List<?>) one;
            found.add(
                    new Interaction(
                            (String) parts.get(0), (String) parts.get(1), number(parts.get(2)),
                            number(parts.get(3))));
        }
        return found;
    }
}
