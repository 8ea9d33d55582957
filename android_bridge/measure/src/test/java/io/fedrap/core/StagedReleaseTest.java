package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
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

/** A release that is for some devices first, over a coordinator that is made by hand. */
class StagedReleaseTest {
    private static final byte[] ROLLOUT = Bytes.ascii("the first rollou");

    @TempDir File folder;
    private final MadeCoordinator coordinator = new MadeCoordinator();
    private final List<Exception> heard = new ArrayList<>();
    private double now = 1_700_000_000;
    private Config config;

    @BeforeEach
    void configure() {
        coordinator.version = 2;
        config = new Config(folder).token("a token").measure(new Measuring()).onError(heard::add);
        config.transport = coordinator;
        config.clock = () -> now;
    }

    /** With release 2 and three interactions; release 3 is staged to such a share, and nobody asked yet. */
    private FedRap beside(double share) {
        FedRap device = FedRap.open(config);
        device.consent(true, true, true, "v1");
        for (String item : new String[] {"item-1", "item-5", "item-2"}) {
            device.record(item);
        }
        assertTrue(device.runRound().joined);
        coordinator.rollout = ROLLOUT;
        ask(3, share, 2);
        return device;
    }

    private void ask(long version, double share, long base) {
        Map<String, Object> map = Fields.start("question");
        map.putAll(
                Export.map(
                        "task", MadeCoordinator.TASK, "question", ROLLOUT, "metric", "ndcg10",
                        "releases", Arrays.asList(version), "noise", 20.0, "delta", 1e-5, "least", 20,
                        "trial", Export.map("rollout", ROLLOUT, "share", share, "base", base),
                        "most", 100, "budget", 10, "asked_at", now, "ends_at", now + 1000,
                        "seal_key", coordinator.sealKey, "seal_id", new byte[8]));
        coordinator.asked.clear();
        coordinator.asked.add(MsgPack.encode(map));
    }

    private float[] opened() {
        assertEquals(1, coordinator.answered.size());
        Fields f = Fields.ofMessage(coordinator.answered.get(0), 8192, "answer");
        byte[] info =
                Bytes.framed(
                        "fedrap/1 answer", f.id16("task"), f.id16("question"), f.id16("device"),
                        f.bytes("seal_id"));
        byte[] secret = P256.secret(coordinator.seal.getPrivate());
        return Bytes.floats(Opener.open(secret, info, f.bytes("sealed")));
    }

    private static List<String> list(FedRap device) {
        List<String> items = new ArrayList<>();
        for (Recommendation one : device.recommend(8)) {
            items.add(one.item);
        }
        return items;
    }

    @Test
    void bothAreRankedUnderAndTheLeadIsTheAnswer() {
        List<String> before;
        List<String> after;
        try (FedRap device = beside(1.0)) {
            device.record("item-0"); // under the full one alone: it says nothing of the two
            before = list(device);
            assertEquals(0, device.answerQuestions(), "no device speaks of it so early");
            assertEquals(3L, device.status().release);
            after = list(device);
            assertNotEquals(before, after);
            device.record(after.get(0));
        }
        try (FedRap device = FedRap.open(config)) { // both are there after a restart
            assertEquals(3L, device.status().release);
            now += 950;
            assertEquals(1, device.answerQuestions());
            assertEquals(1, java.util.Collections.frequency(coordinator.calls, "staged"), "fetched once");
        }
        float lead = (float) Gains.lead(before.indexOf(after.get(0)), 0);
        assertArrayEquals(new float[] {0.25f, lead, lead * lead / 4}, opened(), 1e-7f);
        assertTrue(lead > 0);
        assertTrue(heard.isEmpty(), "" + heard);
    }

    @Test
    void roundsGoOnWithTheFullOneAndTheNextFullOneEndsIt() {
        try (FedRap device = beside(1.0)) {
            device.answerQuestions();
            List<String> staged = list(device);
            device.sync();
            assertEquals(3L, device.status().release);
            coordinator.round = new byte[] {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
            coordinator.step = 100; // far enough from the first
            RoundReport report = device.runRound();
            assertTrue(report.joined, "" + report.blockedBy);
            coordinator.version = 4; // promoted or taken back
            coordinator.rollout = null;
            device.sync();
            assertEquals(4L, device.status().release);
            assertNotEquals(staged, list(device));
        }
        try (FedRap device = FedRap.open(config)) {
            assertEquals(4L, device.status().release);
            assertTrue(device.status().setAside.isEmpty());
        }
        assertTrue(heard.isEmpty(), "" + heard);
    }

    @Test
    void whoIsNotInTheShareKeepsTheFullOneAnswersAndSaysNothing() {
        try (FedRap device = beside(Double.MIN_VALUE)) {
            device.answerQuestions();
            device.record("item-6");
            assertEquals(2L, device.status().release);
            now += 950;
            assertEquals(1, device.answerQuestions());
            assertArrayEquals(new float[3], opened());
        }
        assertTrue(!coordinator.calls.contains("staged"));
    }

    @Test
    void whoNoLongerLetsItselfBeMeasuredHasTheFullOneAtOnce() {
        try (FedRap device = beside(1.0)) {
            List<String> full = list(device);
            device.answerQuestions();
            assertNotEquals(full, list(device));
            device.consent(true, true, "v2");
            assertEquals(full, list(device));
            assertEquals(2L, device.status().release);
        }
    }

    @Test
    void aDeviceThatNeverSawItFollowsTheLogOverIt() {
        try (FedRap device = beside(Double.MIN_VALUE)) {
            coordinator.rawStaged(); // is in the log
            coordinator.version = 4;
            device.sync();
            assertEquals(4L, device.status().release);
        }
    }

    @Test
    void aLogThatNoLongerShowsItIsAnotherHistory() {
        try (FedRap device = beside(1.0)) {
            device.answerQuestions();
            assertEquals(3L, device.status().release);
            coordinator.log.remove(3L);
            coordinator.version = 4; // follows release 2 at once
            FedRapException error = assertThrows(FedRapException.class, device::sync);
            assertEquals(FedRapException.Kind.FORKED_LOG, error.kind());
            assertEquals(3L, device.status().release);
        }
    }

    @Test
    void itIsNotTakenForTheFullOne() {
        MadeCoordinator hostile =
                new MadeCoordinator() {
                    @Override
                    public ReleaseMessage release(Long have) {
                        boolean next = rollout != null;
                        return next ? ReleaseMessage.decode(rawStaged(), 1 << 20) : super.release(have);
                    }
                };
        hostile.version = 2;
        config.transport = hostile;
        try (FedRap device = FedRap.open(config)) {
            device.consent(true, true, true, "v1");
            device.record("item-1");
            device.runRound();
            hostile.rollout = ROLLOUT;
            FedRapException error = assertThrows(FedRapException.class, device::sync);
            assertEquals(FedRapException.Kind.SIGNATURE_INVALID, error.kind());
            assertTrue(error.getMessage().contains("staged"), error.getMessage());
            assertEquals(2L, device.status().release);
        }
    }

    @Test
    void nothingElseThanWhatTheAuthorityStagedIsUsed() {
        try (FedRap device = beside(1.0)) {
            coordinator.rollout = new byte[16]; // by another roll-out
            assertEquals(0, device.answerQuestions());
            assertEquals("not-signed", device.status().blockedBy);
            assertEquals(2L, device.status().release);
            coordinator.rollout = ROLLOUT;
            ask(3, 1.0, 1); // beside another full one
            device.answerQuestions();
            ask(9, 1.0, 2); // it ended a moment ago
            device.answerQuestions();
            assertEquals(2L, device.status().release);
            assertNull(device.status().blockedBy);
            coordinator.log.clear(); // of another history
            coordinator.log.put(1L, entryOfAnother());
            ask(3, 1.0, 2);
            assertEquals(0, device.answerQuestions());
            assertEquals("forked-release", device.status().blockedBy);
            assertEquals(2L, device.status().release);
        }
    }

    private static byte[] entryOfAnother() {
        MadeCoordinator other = new MadeCoordinator();
        other.catalogueVersion = 7;
        other.rawRelease();
        return other.log.get(1L);
    }

    @Test
    void whatCannotBeReadOfItIsSetAsideAndTheFullOneIsInUse() {
        try (FedRap device = beside(1.0)) {
            device.answerQuestions();
        }
        spoil();
        try (FedRap device = FedRap.open(config)) {
            assertEquals(2L, device.status().release);
            assertEquals(1, device.status().setAside.size());
            device.answerQuestions();
            assertEquals(3L, device.status().release, "it is fetched again");
        }
    }

    /** Half of the bytes of what is staged. */
    private void spoil() {
        File own = new File(folder, config.app);
        SealedStore store = SealedStore.open(own, new KeyFile(new File(own, KeyFile.NAME)));
        byte[] raw = store.get("staged");
        store.commit(java.util.Collections.singletonMap("staged", Arrays.copyOf(raw, raw.length / 2)), true);
        store.close();
    }
}
