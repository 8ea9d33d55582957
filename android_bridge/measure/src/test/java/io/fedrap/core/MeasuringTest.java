package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A device that is asked how good its lists were, over a coordinator that is made by hand. */
class MeasuringTest {
    @TempDir File folder;
    private final MadeCoordinator coordinator = new MadeCoordinator();
    private final List<Exception> heard = new ArrayList<>();
    private double now = 1_700_000_000;
    private Config config;

    @BeforeEach
    void configure() {
        coordinator.version = 2; // of a step: C has learnt something
        config = new Config(folder).token("a token").measure(new Measuring()).onError(heard::add);
        config.transport = coordinator;
        config.clock = () -> now;
    }

    /** Enrolled, with a release, three old interactions and one since. */
    private FedRap asked() {
        FedRap device = FedRap.open(config);
        device.consent(true, true, true, "v1");
        for (String item : new String[] {"item-1", "item-5", "item-2"}) {
            device.record(item);
        }
        assertTrue(device.runRound().joined);
        device.record("item-6");
        return device;
    }

    private Map<String, Object> question(Object... pairs) {
        Map<String, Object> map = Fields.start("question");
        map.putAll(
                Export.map(
                        "task", MadeCoordinator.TASK, "question", id(1), "metric", "mrr",
                        "releases", Arrays.asList(2L), "noise", 20.0, "delta", 1e-5, "least", 20,
                        "most", 100, "budget", 10, "asked_at", now, "ends_at", now + 1000,
                        "seal_key", coordinator.sealKey, "seal_id", new byte[8]));
        map.putAll(Export.map(pairs));
        coordinator.asked.add(MsgPack.encode(map));
        return map;
    }

    private static byte[] id(int number) {
        byte[] id = new byte[16];
        id[0] = (byte) number;
        return id;
    }

    /** The numbers that the holder of the sealing key reads. */
    private float[] opened(int place) {
        Fields f = Fields.ofMessage(coordinator.answered.get(place), 8192, "answer");
        byte[] info =
                Bytes.framed(
                        "fedrap/1 answer", f.id16("task"), f.id16("question"), f.id16("device"),
                        f.bytes("seal_id"));
        byte[] secret = P256.secret(coordinator.seal.getPrivate());
        return Bytes.floats(Opener.open(secret, info, f.bytes("sealed")));
    }

    /** Where an item stands in a list of all that were not seen. */
    private static double gain(List<String> list, String item) {
        return 1.0 / (1 + list.indexOf(item));
    }

    @Test
    void aQuestionIsAnsweredOnceWithTheRankOfBeforeAndWrittenDown() {
        List<String> list = new ArrayList<>();
        List<String> popular;
        try (FedRap device = FedRap.open(config)) {
            device.consent(true, true, true, "v1");
            for (String item : new String[] {"item-1", "item-5", "item-2"}) {
                device.record(item);
            }
            assertTrue(device.runRound().joined);
            for (Recommendation one : device.recommend(8)) {
                list.add(one.item);
            }
            popular = device.popular(8);
            popular.removeAll(Arrays.asList("item-1", "item-5", "item-2"));
            device.record("item-6");
            question();
            assertEquals(0, device.answerQuestions(), "its moment has not come");
            now += 950;
            assertEquals(1, device.answerQuestions());
            assertEquals(0, device.answerQuestions());
            Status status = device.status();
            assertTrue(status.measuring);
            assertEquals(1, status.answers);
            assertEquals(1, status.rounds);
            assertTrue(status.answersEpsilon > 0.1 && status.answersEpsilon < 0.3);
            assertTrue(status.epsilon > status.answersEpsilon);
        }
        float own = (float) gain(list, "item-6");
        float more = (float) (gain(popular, "item-6") - gain(list, "item-6"));
        assertArrayEquals(
                new float[] {0.25f, own, own * own / 4, more, more * more / 4}, opened(0), 1e-7f);
        assertTrue(heard.isEmpty(), "" + heard);
        try (FedRap device = FedRap.open(config)) {
            assertEquals(0, device.answerQuestions(), "once and for all");
            assertEquals(1, coordinator.answered.size());
        }
    }

    @Test
    void whatTheCoordinatorDidNotReceiveIsSentAgainAndTheSame() {
        try (FedRap device = asked()) {
            question();
            now += 950;
            coordinator.failing.put("answer", MadeCoordinator.silence());
            assertEquals(0, device.answerQuestions());
            assertEquals(1, device.status().answers, "it is charged before it leaves");
            assertEquals(1, heard.size());
        }
        coordinator.failing.clear();
        try (FedRap device = FedRap.open(config)) {
            assertEquals(0, device.answerQuestions());
            assertEquals(1, coordinator.answered.size());
            assertEquals(1, device.status().answers);
            coordinator.calls.clear();
            device.answerQuestions();
            assertEquals(Arrays.asList("questions"), coordinator.calls, "it is forgotten");
        }
    }

    @Test
    void nobodyIsAskedWithoutConsentOfItsOwnAndItIsTakenBackAtOnce() {
        try (FedRap device = asked()) {
            question();
            now += 950;
            coordinator.failing.put("answer", MadeCoordinator.silence());
            device.answerQuestions();
            coordinator.failing.clear();
            device.consent(true, true, "v2"); // rounds go on, answers do not
            coordinator.calls.clear();
            assertEquals(0, device.answerQuestions());
            device.consent(true, true, true, "v3");
            assertEquals(0, device.answerQuestions());
            assertEquals(Arrays.asList("questions"), coordinator.calls, "what was left is gone");
            assertThrows(
                    IllegalArgumentException.class, () -> device.consent(true, false, true, "v4"));
        }
        config.measure(null);
        try (FedRap device = FedRap.open(config)) {
            question("question", id(2));
            coordinator.calls.clear();
            assertEquals(0, device.answerQuestions());
            assertEquals(0, coordinator.calls.size());
        }
    }

    @Test
    void floorBudgetEndAndSignatureAreKept() {
        config.floorQuestions(0.5);
        try (FedRap device = asked()) {
            question("least", 19);
            question("question", id(2), "noise", 1.0); // more epsilon than it gives
            question("question", id(3), "task", id(9));
            question("question", id(4), "ends_at", now + 1);
            question("question", id(5), "budget", 1);
            question("question", id(6), "budget", 1);
            now += 950;
            assertEquals(1, device.answerQuestions());
            coordinator.asked.clear();
            question("question", id(7), "ends_at", now, "asked_at", now - 10);
            assertEquals(0, device.answerQuestions());
            coordinator.asked.clear();
            question("question", id(8), "asked_at", now - 1000, "ends_at", now + 1);
            MadeCoordinator stranger = new MadeCoordinator();
            stranger.version = 2;
            stranger.asked.addAll(coordinator.asked);
            coordinator.asked.clear();
            config.transport = stranger;
            assertEquals(0, device.answerQuestions());
            assertEquals("not-signed", device.status().blockedBy);
            assertEquals(0, stranger.answered.size());
        }
    }

    @Test
    void candidatesAreComparedUnderTheReleaseInUse() {
        try (FedRap device = asked()) {
            Map<String, Object> force = Export.map("name", "solve");
            Map<String, Object> other = Export.map("name", "solve", "ridge", 1e6, "rho", 0.0);
            List<Object> variants = Arrays.<Object>asList(force, force, other);
            question("variants", variants, "light", 2);
            question("question", id(2), "variants", variants, "releases", Arrays.asList(1L));
            List<Object> paper = Arrays.<Object>asList(force, Export.map("name", "paper"));
            question("question", id(3), "variants", paper);
            now += 950;
            assertEquals(3, device.answerQuestions());
        }
        float[] numbers = opened(0);
        assertEquals(2 * 7, numbers.length);
        assertEquals(0f, numbers[1], "light users are others");
        assertEquals(0.25f, numbers[7]);
        assertTrue(numbers[8] > 0);
        assertEquals(0f, numbers[10], "the same scoring twice");
        assertArrayEquals(new float[7], opened(1), "of another release");
        assertArrayEquals(new float[5], opened(2), "of another method");
    }

    @Test
    void whatTheListConsistsOfIsSaidOfTheReleaseInUseAlone() {
        List<String> items = new ArrayList<>();
        try (FedRap device = asked()) {
            device.hide("item-0");
            for (Recommendation one : device.recommend(10)) {
                items.add(one.item);
            }
            question("lists", 16);
            question("question", id(2), "lists", 16, "releases", Arrays.asList(1L));
            now += 950;
            assertEquals(2, device.answerQuestions());
        }
        assertEquals(3, items.size(), "of eight, four are known and one is hidden");
        double[] lines = Lists.lines(0.0, items, id(1), 16); // the first of eight is the one that is hidden
        byte[] said = Question.vector(1, 0, 16, false, new double[][] {lines}, 0);
        assertArrayEquals(Bytes.floats(said), opened(0));
        assertArrayEquals(new float[19], opened(1), "of another release");
    }

    @Test
    void whatAReleaseDidNotSeeDoesNotCountUnderItAndWhatIsRemovedGoes() {
        try (FedRap device = asked()) {
            device.sync(); // looked at, under release 2
            coordinator.version = 3;
            device.sync();
            device.record("item-7");
            question("releases", Arrays.asList(2L, 3L, 4L));
            now += 950;
            assertEquals(1, device.answerQuestions());
            float[] numbers = opened(0);
            assertEquals(0.25f, numbers[0]);
            assertEquals(0.25f, numbers[5]);
            assertEquals(0f, numbers[10]);
            assertEquals(1, device.remove("item-7"));
            question("question", id(2), "asked_at", now - 1000, "ends_at", now + 1);
            assertEquals(1, device.answerQuestions());
            assertArrayEquals(new float[5], opened(1), "sums that knew of it are gone");
            device.record("item-3");
            question("question", id(3), "asked_at", now - 1000, "ends_at", now + 1, "releases", Arrays.asList(3L));
            assertEquals(1, device.answerQuestions());
            assertEquals(0.25f, opened(2)[0]);
            assertFalse(device.hidden().contains("item-3"));
        }
    }

    @Test
    void whatIsRecordedAfterAllElseIsTooOldCountsToo() {
        config.retention(100, 1.0);
        try (FedRap device = asked()) {
            device.sync(); // all of it was looked at
        }
        now += 2 * 86_400;
        try (FedRap device = FedRap.open(config)) {
            assertEquals(0, device.status().interactions);
            coordinator.version = 3;
            device.sync();
        }
        try (FedRap device = FedRap.open(config)) {
            device.record("item-3");
            device.record("item-4");
            question("releases", Arrays.asList(3L), "asked_at", now - 1000, "ends_at", now + 1);
            assertEquals(1, device.answerQuestions());
            assertEquals(0.25f, opened(0)[0]);
        }
    }
}
