package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Feedback, taking things back, consent in two parts, profiles, and stores that open whatever was done. */
class FeedbackTest {
    @TempDir Path folder;
    private final MadeCoordinator coordinator = new MadeCoordinator();

    private Config config() {
        Config config = new Config(folder.toFile());
        config.transport = coordinator;
        return config.token("token");
    }

    private FedRap synced() {
        coordinator.version = 2;
        FedRap device = FedRap.open(config());
        device.consent(true, "v1");
        device.record("item-1");
        device.record("item-5");
        device.sync();
        return device;
    }

    private static Map<String, Double> scores(FedRap device) {
        Map<String, Double> found = new HashMap<>();
        for (Recommendation one : device.recommend(new Wish(99).filterSeen(false))) {
            found.put(one.item, one.score);
        }
        return found;
    }

    @Test
    void aDislikeLowersItsItemAndStaysOnTheDevice() {
        coordinator.step = 8;
        try (FedRap device = synced()) {
            double before = scores(device).get("item-2");
            device.record(new Interaction("item-2", "dislike", 1, Double.NaN));
            assertTrue(scores(device).get("item-2") < before);
            assertTrue(device.runRound().joined);
        }
        assertEquals(1, coordinator.sent.size());
    }

    @Test
    void whatIsHiddenIsNeverShownUntilItIsShownAgain() {
        try (FedRap device = synced()) {
            Map<String, Double> before = scores(device);
            String first = device.recommend(1).get(0).item;
            device.hide(first);
            device.record(new Interaction("item-7", "hide", 1, Double.NaN));
            assertFalse(scores(device).containsKey(first));
            assertFalse(device.popular(99).contains("item-7"));
            assertEquals(2, device.status().hidden);
        }
        try (FedRap device = FedRap.open(config())) {
            assertEquals(2, device.hidden().size());
            for (String item : device.hidden()) {
                assertTrue(device.unhide(item));
                assertFalse(device.unhide(item));
            }
            assertEquals(0, device.status().hidden);
            assertEquals(MadeCoordinator.SIZE, scores(device).size());
        }
    }

    @Test
    void interactionsAreTakenBack() {
        try (FedRap device = synced()) {
            device.record("item-1");
            assertEquals(2, device.remove("item-1"));
            assertEquals(0, device.remove("item-1"));
            assertEquals(1, device.remove(device.history().get(0)));
            device.record("item-3");
            assertEquals(1, device.clearHistory());
            assertEquals(Collections.emptyList(), device.history());
        }
        try (FedRap device = FedRap.open(config())) {
            assertEquals(0, device.status().interactions);
        }
    }

    @Test
    void listsFollowTheWish() {
        try (FedRap device = synced()) {
            List<Recommendation> all = device.recommend(10);
            Wish odd = new Wish(3).filter(item -> item.endsWith("3") || item.endsWith("7"));
            assertEquals(2, device.recommend(odd).size());
            String first = all.get(0).item;
            assertFalse(names(device.recommend(new Wish(9).exclude(Arrays.asList(first)))).contains(first));
            String last = all.get(all.size() - 1).item;
            Recommendation raised =
                    device.recommend(new Wish(1).boost(Collections.singletonMap(last, 9.0))).get(0);
            assertEquals(last, raised.item);
            assertEquals(raised.shared + raised.personal + 9.0, raised.score);
            assertEquals(first, device.recommend(new Wish(3).diversity(0.5)).get(0).item);
            assertTrue(device.because(first).words().startsWith("because you liked item-"));
            assertEquals("", device.because("unknown").words());
            assertEquals("item-0", device.popular(1).get(0));
        }
    }

    private static String names(List<Recommendation> found) {
        return found.toString();
    }

    @Test
    void whatManyTouchedLatelyIsListedWithoutWhatIsHidden() {
        byte[] lately = {0, 3, 0, 9, 0, 5, 0, -7}; // of items 0 to 7
        coordinator.trend = Bytes.join(Bytes.bytes(new float[] {0.5f}), lately);
        try (FedRap device = FedRap.open(config())) {
            device.consent(true, "v1");
            assertTrue(device.trending(3).isEmpty(), "nothing was fetched");
            device.sync();
            assertEquals(Arrays.asList("item-3", "item-5"), device.trending(2));
            device.hide("item-3");
            assertEquals(Arrays.asList("item-5", "item-1"), device.trending(9));
            assertTrue(device.trending(0).isEmpty());
        }
    }

    @Test
    void whoDeclinesTrainingHasRecommendationsAndSendsNothing() {
        coordinator.version = 2;
        try (FedRap device = FedRap.open(config())) {
            device.record("item-1");
            device.sync();
            assertEquals(Collections.emptyList(), coordinator.calls);
            device.consent(true, false, "v1");
            device.sync();
            assertEquals(5, device.recommend(5).size());
            assertEquals(Eligibility.NO_CONSENT, device.runRound().blockedBy);
            assertEquals(true, device.status().fetching);
            assertFalse(device.status().consented);
            assertFalse(coordinator.calls.contains("enrol"));
            device.consent(false, false, "v1");
            coordinator.calls.clear();
            device.sync();
            assertEquals(Collections.emptyList(), coordinator.calls);
        }
    }

    @Test
    void anAppMayFetchBeforeItAsks() {
        coordinator.version = 2;
        try (FedRap device = FedRap.open(config().fetch("anonymous"))) {
            device.sync();
            assertEquals(5, device.recommend(5).size());
            assertFalse(coordinator.calls.contains("enrol"));
        }
    }

    @Test
    void profilesShareNothingAndOneIsErasedAlone() {
        KeyProvider app = new KeyFile(folder.resolve("app.key").toFile());
        for (String name : new String[] {"ann", "bob", null}) {
            try (FedRap device = FedRap.open(config().profile(name).key(app))) {
                device.record("item of " + name);
            }
        }
        for (String gone : new String[] {"ann", null}) {
            try (FedRap device = FedRap.open(config().profile(gone).key(app))) {
                device.erase();
            }
        }
        try (FedRap bob = FedRap.open(config().profile("bob").key(app))) {
            assertEquals("item of bob", bob.history().get(0).item);
        }
        try (FedRap ann = FedRap.open(config().profile("ann").key(app))) {
            assertEquals(0, ann.status().interactions);
        }
        for (File one : new File(folder.toFile(), "app").listFiles()) {
            assertFalse(one.getName().contains("ann"));
        }
    }

    @Test
    void scryptIsThatOfTheStandard() { // RFC 7914, 12
        byte[] made = Scrypt.derive("password".getBytes(), "NaCl".getBytes(), 1024, 8, 16, 64);
        assertTrue(Bytes.hex(made).startsWith("fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"));
        assertTrue(
                Bytes.hex(Scrypt.derive(new byte[0], new byte[0], 16, 1, 1, 64))
                        .startsWith("77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442"));
    }

    @Test
    void aHistoryMovesToAnotherProfile() throws Exception {
        File file = folder.resolve("mine").toFile();
        coordinator.step = 8;
        try (FedRap device = synced()) {
            assertTrue(device.runRound().joined);
            device.hide("item-7");
            device.export(file, "correct horse");
        }
        try (FedRap other = FedRap.open(config().profile("other"))) {
            for (String wrong : new String[] {null, "another horse"}) {
                assertThrows(FedRapException.class, () -> other.importExport(file, wrong));
            }
            assertThrows(IllegalArgumentException.class, () -> other.importExport(file, "short"));
            assertEquals(2, other.importExport(file, "correct horse"));
            assertEquals(0, other.importExport(file, "correct horse"));
            assertEquals(1, other.status().rounds);
            assertEquals(1, other.status().hidden);
            assertFalse(other.status().consented);
        }
        try (FedRap other = FedRap.open(config().profile("other"))) {
            assertEquals(2, other.history().size());
            assertEquals(1, other.status().rounds);
        }
        java.nio.file.Files.write(file.toPath(), new byte[] {1, 2, 3});
        try (FedRap other = FedRap.open(config().profile("other"))) {
            assertThrows(FedRapException.class, () -> other.importExport(file, null));
        }
    }

    @Test
    void recordsThatCannotBeReadAreSetAside() {
        coordinator.step = 8;
        try (FedRap device = synced()) {
            assertTrue(device.runRound().joined);
        }
        KeyProvider key = new KeyFile(folder.resolve("app/" + KeyFile.NAME).toFile());
        SealedStore store = SealedStore.open(folder.resolve("app").toFile(), key);
        Map<String, byte[]> broken = new HashMap<>();
        broken.put("event/1", StateCodec.list("item-1", null, 1.0, 5.0)); // as version 0.1 took it
        broken.put("consents", StateCodec.list("something else"));
        broken.put("personal", new byte[] {(byte) 0xc1});
        store.commit(broken, true);
        store.close();
        try (FedRap device = FedRap.open(config())) {
            Status status = device.status();
            assertEquals(3, status.setAside.size(), status.setAside.toString());
            assertEquals(1, status.interactions);
            assertEquals(1, status.rounds);
            assertFalse(status.consented);
            device.consent(true, "v2");
            device.record("item-3");
        }
        try (FedRap device = FedRap.open(config())) {
            assertEquals(2, device.status().interactions);
            assertTrue(device.status().consented);
        }
    }

    @Test
    void aLedgerThatCannotBeReadEndsRoundsAndNothingElse() {
        coordinator.step = 8;
        try (FedRap device = synced()) {
            assertTrue(device.runRound().joined);
        }
        KeyProvider key = new KeyFile(folder.resolve("app/" + KeyFile.NAME).toFile());
        SealedStore store = SealedStore.open(folder.resolve("app").toFile(), key);
        store.commit(Collections.singletonMap("ledger", StateCodec.list("nonsense")), true);
        store.close();
        for (int i = 0; i < 2; i++) {
            try (FedRap device = FedRap.open(config())) {
                assertEquals(Eligibility.LEDGER_LOST, device.runRound().blockedBy);
                assertEquals(5, device.recommend(5).size());
            }
        }
    }

    @Test
    void aDeviceThatIsNotKnownEnrolsOnceMore() {
        int[] asked = {0};
        Config config = config().token((Config.TokenSource) () -> "token-" + ++asked[0]);
        try (FedRap device = FedRap.open(config)) {
            device.consent(true, "v1");
            device.record("item-1");
            assertTrue(device.runRound().joined);
            forgetsUs();
            coordinator.version = 4;
            coordinator.step = 8;
            coordinator.round = Bytes.sha256(new byte[1]);
            coordinator.round = java.util.Arrays.copyOf(coordinator.round, 16);
            assertTrue(device.runRound().joined);
            assertEquals(2, asked[0]);
            forgetsUs();
            assertEquals("not-enrolled", device.runRound().blockedBy);
            assertEquals("not-enrolled", device.status().blockedBy);
            assertEquals(2, asked[0]);
            assertEquals(1, device.status().interactions);
        }
    }

    private void forgetsUs() {
        coordinator.whileAnswering.put(
                "release",
                () -> {
                    throw MadeCoordinator.refusal("not-enrolled", null);
                });
    }

    @Test
    void aSourceOfTokensThatFailsIsHeard() {
        Exception[] heard = {null};
        Config config = config().token((Config.TokenSource) () -> null).onError(error -> heard[0] = error);
        try (FedRap device = FedRap.open(config)) {
            device.consent(true, "v1");
            device.record("item-1");
            assertEquals(Eligibility.TOKEN_FAILED, device.runRound().blockedBy);
        }
        assertTrue(heard[0] instanceof IllegalArgumentException);
        assertThrows(IllegalArgumentException.class, () -> config.fetch("always"));
    }

    @Test
    void finalAnswersAreAskedForAgainInDays() {
        RoundReport report = RoundReport.blocked("budget-spent");
        for (double uniform : new double[] {0, 0.5, 0.99}) {
            double delay = Pace.DEFAULT.nextDelay(report, 0, uniform);
            assertTrue(delay >= 86_400 && delay <= 3 * 86_400, delay + " s");
        }
    }
}
