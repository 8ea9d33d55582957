package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fedrap.core.FedRapException.Kind;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.zip.ZipFile;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The facade over a coordinator that is made by hand. */
class FedRapTest {
    @TempDir File folder;
    private final MadeCoordinator coordinator = new MadeCoordinator();
    private double now = 1_700_000_000;
    private Config config;

    @BeforeEach
    void configure() {
        config = new Config(folder).token("a token");
        config.transport = coordinator;
        config.clock = () -> now;
    }

    private FedRap consenting() {
        FedRap device = FedRap.open(config);
        device.consent(true, "v1");
        for (String item : new String[] {"item-1", "item-5", "item-2"}) {
            device.record(item);
        }
        return device;
    }

    @Test
    void nobodyIsAskedBeforeConsent() {
        try (FedRap device = FedRap.open(config)) {
            device.record("item-1");
            device.sync();
            assertEquals(Collections.emptyList(), device.recommend(5));
            assertEquals(Eligibility.NO_CONSENT, device.runRound().blockedBy);
            device.consent(false, "v1");
            device.sync();
            assertEquals(Eligibility.NO_CONSENT, device.runRound().blockedBy);
            assertEquals(Eligibility.NO_CONSENT, device.status().blockedBy);
        }
        assertEquals(Collections.emptyList(), coordinator.calls);
    }

    @Test
    void aRoundGoesTheWholeWayAndIsKept() {
        try (FedRap device = consenting()) {
            RoundReport report = device.runRound();
            assertTrue(report.joined);
            assertEquals(1, report.step);
            assertEquals(coordinator.sent.get(0).length, report.sentBytes);
            assertTrue(report.loss > 0 && report.loss < 1);
        }
        assertEquals(
                Arrays.asList("enrol", "release", "catalogue", "offer", "send"), coordinator.calls);
        try (FedRap device = FedRap.open(config)) {
            Status status = device.status();
            assertTrue(status.consented && status.enrolled);
            assertEquals(3, status.interactions);
            assertEquals(3, status.personalItems);
            assertEquals(1, status.release);
            assertEquals(1, status.rounds);
            assertTrue(status.epsilon > 1 && status.epsilon < 10, "" + status.epsilon);
            assertEquals(0, status.pending);
            assertNull(status.storeReset);
            // Asked again for the same round, it has given what it had; another step is too near.
            assertEquals(Eligibility.ALREADY_IN_ROUND, device.runRound().blockedBy);
            coordinator.round = new byte[] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
            coordinator.step = 2;
            assertEquals("ledger-separation", device.runRound().blockedBy);
            assertEquals(1, coordinator.sent.size());
        }
    }

    @Test
    void aWeakerPolicyWaitsForTheUserWhereTheAppWantsThat() {
        config.floorAskAgain(true);
        try (FedRap device = consenting()) {
            assertTrue(device.runRound().joined);
            coordinator.round = new byte[] {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
            coordinator.step = 9;
            coordinator.privacy.put("noise", 1.9);
            now += 60;
            RoundReport report = device.runRound();
            assertEquals(Eligibility.POLICY_CHANGED, report.blockedBy);
            assertTrue(report.offered.epsilon > device.status().privacy.epsilon);
            coordinator.privacy.put("noise", 2.1);
            assertNull(device.runRound().offered, "a stronger one is joined");
            coordinator.round = new byte[] {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
            coordinator.step = 19;
            coordinator.privacy.put("window_days", 100.0); // K anew after 100 days, where it was for a life
            assertEquals(Eligibility.POLICY_CHANGED, device.runRound().blockedBy);
            now += 1;
            device.consent(true, "v2");
            assertTrue(device.runRound().joined);
        }
    }

    /** What an app's own trainer makes of a round may run away; nothing of it leaves. */
    @Test
    void aRoundThatRanAwayIsDroppedAndCounted() {
        try (FedRap plain = FedRap.open(config)) {
            assertEquals("plain Java is the default of a device", plain.status().trainerReason);
        }
        config.trainer(
                new LocalTrainer() {
                    @Override
                    public String name() {
                        return "mine";
                    }

                    @Override
                    public List<LocalShare> solve(List<ShareProblem> problems) {
                        List<LocalShare> shares = new ArrayList<>();
                        for (ShareProblem one : problems) {
                            double[] rows = new double[one.count() * one.dim()];
                            Arrays.fill(rows, Double.NaN);
                            shares.add(new LocalShare(new double[one.dim()], rows, 1.0));
                        }
                        return shares;
                    }
                });
        try (FedRap device = consenting()) {
            assertEquals(Eligibility.DIVERGED, device.runRound().blockedBy);
        }
        try (FedRap device = FedRap.open(config)) {
            Status status = device.status();
            assertEquals(1, status.dropped);
            assertEquals("mine", status.trainer);
            assertEquals("the caller asked for it", status.trainerReason);
            assertEquals(0, status.rounds);
        }
        assertFalse(coordinator.calls.contains("send"), "" + coordinator.calls);
    }

    @Test
    void bytesThatWereNotAnsweredAreSentAgainAndTheSame() {
        coordinator.failing.put("send", MadeCoordinator.silence());
        try (FedRap device = consenting()) {
            assertEquals(Eligibility.UNREACHABLE, device.runRound().blockedBy);
            assertEquals(1, device.status().pending);
            assertEquals(1, device.status().rounds);
        }
        coordinator.failing.clear();
        coordinator.calls.clear();
        try (FedRap device = FedRap.open(config)) {
            RoundReport report = device.runRound();
            assertTrue(report.joined);
            assertEquals(Collections.singletonList("send"), coordinator.calls, "no second place");
            assertEquals(0, device.status().pending);
            assertEquals(1, device.status().rounds);
        }
    }

    @Test
    void aFinalRefusalEmptiesTheOutboxAndALaterOneDoesNot() {
        try (FedRap device = consenting()) {
            coordinator.failing.put("send", MadeCoordinator.refusal("unavailable", 5.0));
            RoundReport later = device.runRound();
            assertEquals("unavailable", later.blockedBy);
            assertEquals(5.0, later.retryAfter);
            assertEquals(1, device.status().pending);
            assertEquals(Eligibility.TOLD_TO_WAIT, device.runRound().blockedBy);
            now += 6;
            coordinator.failing.put("send", MadeCoordinator.refusal("round-closed", null));
            assertEquals("round-closed", device.runRound().blockedBy);
            assertEquals(0, device.status().pending);
            assertEquals(1, device.status().rounds, "what was charged stays charged");
        }
    }

    @Test
    void theCoordinatorsPaceIsKeptAcrossRestartsAndNotForEver() {
        try (FedRap device = consenting()) {
            coordinator.failing.put("offer", MadeCoordinator.refusal("no-round", 100.0));
            assertEquals("no-round", device.runRound().blockedBy);
        }
        coordinator.failing.clear();
        int calls = coordinator.calls.size();
        now += 40;
        try (FedRap device = FedRap.open(config)) {
            RoundReport report = device.runRound();
            assertEquals(Eligibility.TOLD_TO_WAIT, report.blockedBy);
            assertEquals(60.0, report.retryAfter, 1e-3);
            assertEquals(calls, coordinator.calls.size());
            now -= 1000; // a clock that is set back does not make it wait longer
            assertTrue(device.runRound().joined);
        }
    }

    @Test
    void consentTakenBackWhileAnUpdateIsComputedIsHeard() {
        FedRap[] opened = new FedRap[1];
        config.watcher =
                step -> {
                    if (step.equals("after-offer")) {
                        opened[0].consent(false, "v1");
                    }
                };
        try (FedRap device = consenting()) {
            opened[0] = device;
            RoundReport report = device.runRound();
            assertFalse(report.joined);
            assertEquals(Collections.emptyList(), coordinator.sent);
            assertEquals(0, device.status().rounds);
        }
    }

    @Test
    void anOutboxIsNotSentAfterConsentWasWithdrawn() {
        coordinator.failing.put("send", MadeCoordinator.silence());
        try (FedRap device = consenting()) {
            assertEquals(Eligibility.UNREACHABLE, device.runRound().blockedBy);
            assertEquals(1, device.status().pending);
            device.consent(false, "v1");
            assertEquals(0, device.status().pending);
            device.consent(true, "v2");
            coordinator.failing.clear();
            assertEquals(Eligibility.ALREADY_IN_ROUND, device.runRound().blockedBy);
        }
        try (FedRap device = FedRap.open(config)) {
            assertEquals(0, device.status().pending);
            assertEquals(1, device.status().rounds, "what was charged stays charged");
        }
        assertEquals(1, Collections.frequency(coordinator.calls, "send"));
    }

    @Test
    void aRunningRoundStopsBeforeItsNextRequestWhenConsentIsWithdrawn() {
        List<String> verbs = Arrays.asList("enrol", "release", "catalogue", "offer", "send");
        for (String verb : verbs) {
            MadeCoordinator made = new MadeCoordinator();
            Config own = new Config(new File(folder, verb)).token("t");
            own.transport = made;
            try (FedRap device = FedRap.open(own)) {
                device.consent(true, "v1");
                device.record("item-1");
                made.whileAnswering.put(verb, () -> withdrawElsewhere(device));
                RoundReport report = device.runRound();
                assertEquals(verbs.subList(0, verbs.indexOf(verb) + 1), made.calls);
                assertEquals(verb.equals("send") ? null : Eligibility.NO_CONSENT, report.blockedBy);
                assertEquals(0, device.status().pending);
            }
        }
    }

    @Test
    void theAppsTokenIsNotAskedForAfterAWithdrawalNorUsed() {
        for (String moment : new String[] {"before", "during", "throwing"}) {
            MadeCoordinator made = new MadeCoordinator();
            List<String> called = new ArrayList<>();
            FedRap[] opened = new FedRap[1];
            Config own = new Config(new File(folder, moment)).onError(error -> called.add("told"));
            own.token(
                    () -> {
                        called.add("token");
                        withdrawElsewhere(opened[0]);
                        if (moment.equals("throwing")) {
                            throw new IOException("the backend is out of reach");
                        }
                        return "t";
                    });
            own.attest(
                    challenge -> {
                        called.add("attest");
                        return Proof.NONE;
                    });
            own.transport = made;
            try (FedRap device = FedRap.open(own)) {
                opened[0] = device;
                device.consent(true, "v1");
                device.record("item-1");
                Conditions conditions =
                        () -> {
                            if (moment.equals("before")) {
                                withdrawElsewhere(device);
                            }
                            return null;
                        };
                assertEquals(Eligibility.NO_CONSENT, device.runRound(0, conditions).blockedBy);
            }
            List<String> expected =
                    moment.equals("before") ? Collections.emptyList() : Arrays.asList("token");
            assertEquals(expected, called, moment);
            assertEquals(Collections.emptyList(), made.calls, moment);
        }
    }

    private static void withdrawElsewhere(FedRap device) {
        Thread other = new Thread(() -> device.consent(false, "v1"));
        other.start();
        try {
            other.join();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    void aStopAtEachStepIsResumedAndChargedOnce() {
        for (String step : new String[] {"before-offer", "after-offer", "before-commit", "before-send"}) {
            MadeCoordinator made = new MadeCoordinator();
            Config own = new Config(new File(folder, step)).token("t");
            own.transport = made;
            FedRap[] opened = new FedRap[1];
            own.watcher = at -> stopAt(step, at, opened[0]);
            try (FedRap device = FedRap.open(own)) {
                opened[0] = device;
                device.consent(true, "v1");
                device.record("item-1");
                assertEquals(Eligibility.STOPPED, device.runRound().blockedBy, step);
                assertEquals(Collections.emptyList(), made.sent, step);
                own.watcher = at -> {};
            }
            own.watcher = at -> {};
            try (FedRap device = FedRap.open(own)) {
                assertTrue(device.runRound().joined, step);
                assertEquals(1, device.status().rounds, step);
            }
        }
    }

    private static void stopAt(String wanted, String at, FedRap device) {
        if (at.equals(wanted)) {
            device.stop();
        }
    }

    @Test
    void closingInTheMiddleOfARoundIsAStop() {
        FedRap device = consenting();
        config.onError(
                error -> {
                    throw new IllegalStateException("a listener that fails");
                });
        coordinator.during = device::close;
        coordinator.failing.put("send", MadeCoordinator.refusal("unavailable", 5.0));
        assertEquals(Eligibility.STOPPED, device.runRound().blockedBy);
        coordinator.failing.clear();
        coordinator.during = () -> {};
        try (FedRap again = FedRap.open(config)) {
            assertTrue(again.runRound().joined);
            assertEquals(1, again.status().rounds);
        }
    }

    /** Two syncs at once: the slower one has the changes to a C that is not there any more. */
    @Test
    void ofTwoSyncsAtOnceTheFasterIsKeptWhole() {
        coordinator.version = 1;
        try (FedRap device = consenting()) {
            device.sync();
            coordinator.version = 2;
            FedRap[] same = {device};
            coordinator.beforeCatalogue =
                    () -> {
                        coordinator.beforeCatalogue = () -> {};
                        coordinator.version = 3;
                        same[0].sync();
                    };
            coordinator.catalogueVersion = 2; // so that the catalogue is asked for in between
            device.sync();
            assertEquals(3, device.status().release);
        }
        try (FedRap device = FedRap.open(config)) {
            assertEquals(3, device.status().release);
        }
    }

    @Test
    void oneRoundAtATime() {
        try (FedRap device = consenting()) {
            RoundReport[] second = new RoundReport[1];
            coordinator.during = () -> second[0] = device.runRound();
            assertTrue(device.runRound().joined);
            assertEquals(Eligibility.ALREADY_RUNNING, second[0].blockedBy);
        }
    }

    @Test
    void offersThatAreNotToBeFollowedAreRefusedHere() {
        try (FedRap device = consenting()) {
            coordinator.minUpdates = 1;
            assertEquals("floor-cohort", device.runRound().blockedBy);
            coordinator.minUpdates = 20;
            coordinator.model = new byte[32];
            assertEquals(Eligibility.FORKED_RELEASE, device.runRound().blockedBy);
            coordinator.model = null;
            coordinator.method.put("a field from the future", 1);
            assertEquals(Eligibility.UNREACHABLE, device.runRound().blockedBy);
            coordinator.method.remove("a field from the future");
            coordinator.sealKey[40] ^= 1;
            assertEquals(Eligibility.UNREACHABLE, device.runRound().blockedBy);
            assertEquals(0, device.status().rounds);
            assertEquals(Collections.emptyList(), coordinator.sent);
        }
    }

    @Test
    void aReleaseOfAnotherMethodCostsNoPlaceAndStillServes() {
        coordinator.scoring = "paper";
        coordinator.version = 2;
        try (FedRap device = consenting()) {
            assertEquals(Eligibility.UNSUPPORTED_METHOD, device.runRound().blockedBy);
            assertFalse(coordinator.calls.contains("offer"));
            assertEquals("item-0", device.recommend(1).get(0).item, "the first of the catalogue");
        }
    }

    @Test
    void aRecordThatIsNoInteractionCostsItself() {
        consenting().close();
        File place = new File(folder, "app");
        SealedStore store = SealedStore.open(place, new KeyFile(new File(place, KeyFile.NAME)));
        store.commit(Collections.singletonMap("event/9", MsgPack.encode("not a list")), true);
        store.close();
        try (FedRap device = FedRap.open(config)) {
            assertEquals(3, device.status().interactions);
            assertEquals("event/9: a record of another version", device.status().setAside.get(0));
        }
    }

    @Test
    void tapsThatComeLateAreSortedIn() {
        try (FedRap device = FedRap.open(config)) {
            device.record(new Interaction("c", "tap", 1, 300));
            device.recordMany(
                    Arrays.asList(
                            new Interaction("a", "tap", 1, 100), new Interaction("b", "tap", 1, 200)));
            device.record("d");
        }
        try (FedRap device = FedRap.open(config)) {
            StringBuilder order = new StringBuilder();
            File zip = new File(folder, "order.zip");
            Exported done = assertDoesNotThrow(() -> device.export(zip));
            assertEquals(4, done.interactions);
            try (ZipFile file = new ZipFile(zip)) {
                byte[] raw = file.getInputStream(file.getEntry("interactions.json")).readAllBytes();
                for (Object one : (List<?>) Json.parse(new String(raw, StandardCharsets.UTF_8))) {
                    order.append(((java.util.Map<?, ?>) one).get("item"));
                }
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
            assertEquals("abcd", order.toString());
        }
    }

    @Test
    void conditionsAreAskedBeforeAnythingIsSentAndOneThatThrowsIsNotMet() {
        try (FedRap device = consenting()) {
            assertEquals(Eligibility.METERED, device.runRound(0, () -> Eligibility.METERED).blockedBy);
            assertEquals(
                    Eligibility.NOT_IDLE,
                    device.runRound(
                                    0,
                                    () -> {
                                        throw new IllegalStateException();
                                    })
                            .blockedBy);
            assertEquals(Collections.emptyList(), coordinator.calls);
        }
    }

    @Test
    void recommendationsComeFromTheReleaseAndSayWhy() {
        coordinator.version = 2;
        try (FedRap device = consenting()) {
            device.sync();
            List<Recommendation> found = device.recommend(new Wish(3).explain(true));
            assertEquals(3, found.size());
            for (Recommendation one : found) {
                assertFalse(Arrays.asList("item-1", "item-5", "item-2").contains(one.item));
                double sum = 0;
                for (Reason why : one.reasons) {
                    sum += why.shared + why.personal;
                }
                assertEquals(one.score, sum, 1e-9);
            }
            assertTrue(found.get(0).score >= found.get(1).score);
            List<Recommendation> two =
                    device.recommend(
                            new Wish(5)
                                    .candidates(Arrays.asList("item-1", "item-7", "unknown"))
                                    .filterSeen(false));
            assertEquals(2, two.size());
            assertEquals(4, device.similarItems("item-1", 4).size());
            assertEquals(Collections.emptyList(), device.similarItems("unknown", 4));
        }
    }

    @Test
    void aHistoryIsBoundedAndInTheOrderOfTime() {
        config.retention(64, 30);
        try (FedRap device = FedRap.open(config)) {
            for (int i = 0; i < 100; i++) {
                device.record(new Interaction("item-" + i, "tap", 1, now + i - 1000));
            }
            assertTrue(device.status().interactions <= 64);
            device.record(new Interaction("later", "tap", 1, now + 1e9)); // nothing is later than now
            now += 31 * 86400;
        }
        try (FedRap device = FedRap.open(config)) {
            assertEquals(0, device.status().interactions);
        }
    }

    @Test
    void whatIsNoInteractionIsRefused() {
        for (String item : new String[] {"", "a\nb", "a\rb", null}) {
            assertThrows(IllegalArgumentException.class, () -> new Interaction(item));
        }
        for (double weight : new double[] {0, -1, 1001, Double.NaN}) {
            assertThrows(
                    IllegalArgumentException.class, () -> new Interaction("a", "tap", weight, 0));
        }
    }

    @Test
    void anExportIsReadableAndHasNoKey() throws Exception {
        File zip = new File(folder, "mine.zip");
        try (FedRap device = consenting()) {
            assertTrue(device.runRound().joined);
            Exported exported = device.export(zip);
            assertEquals(3, exported.interactions);
            assertEquals(8, exported.files.size());
        }
        StringBuilder all = new StringBuilder();
        try (ZipFile file = new ZipFile(zip)) {
            file.stream()
                    .forEach(
                            entry -> {
                                try {
                                    byte[] raw = file.getInputStream(entry).readAllBytes();
                                    String text = new String(raw, StandardCharsets.UTF_8);
                                    if (entry.getName().endsWith(".json")) {
                                        Json.parse(text);
                                    }
                                    all.append(text);
                                } catch (java.io.IOException error) {
                                    throw new java.io.UncheckedIOException(error);
                                }
                            });
        }
        assertTrue(all.indexOf("item-5") > 0 && all.indexOf("2023-11-14T") > 0);
        assertFalse(all.indexOf("secret") >= 0 || all.indexOf("private") >= 0);
    }

    @Test
    void erasingDeletesEverythingAndTellsTheCoordinator() {
        FedRap device = consenting();
        assertTrue(device.runRound().joined);
        Erased receipt = device.erase();
        assertTrue(receipt.coordinatorConfirmed);
        assertTrue(receipt.deleted.containsAll(Arrays.asList("key", "snapshot", "lock")));
        assertFalse(new File(folder, "app").exists());
        assertEquals(
                Kind.STORE_CLOSED,
                assertThrows(FedRapException.class, device::status).kind());
        device.close();
        FedRap again = consenting();
        assertTrue(again.runRound().joined);
        coordinator.failing.put("forget", MadeCoordinator.silence());
        assertEquals(Eligibility.UNREACHABLE, again.erase().notConfirmedBecause);
        assertFalse(new File(folder, "app").exists());
    }

    @Test
    void aLostKeyIsAnErrorOrAFreshStartAsTheAppWants() {
        consenting().close();
        File key = new File(new File(folder, "app"), KeyFile.NAME);
        assertTrue(key.delete());
        assertEquals(
                Kind.STORE_LOCKED,
                assertThrows(FedRapException.class, () -> FedRap.open(config)).kind());
        config.freshWhenLost(true);
        try (FedRap device = FedRap.open(config)) {
            assertEquals(0, device.status().interactions);
            assertFalse(device.status().consented, "consent went with the store");
            assertEquals(Kind.STORE_LOCKED, device.status().storeReset.reason);
        }
        try (FedRap device = FedRap.open(config)) {
            assertNotNull(device.status().storeReset, "it is remembered");
            FedRapException busy =
                    assertThrows(FedRapException.class, () -> FedRap.open(config));
            assertEquals(Kind.STORE_BUSY, busy.kind(), "an open store is no lost one");
        }
    }

    @Test
    void onlyHttpsOrThisMachineIsSpokenTo() {
        Config fresh = new Config(folder);
        fresh.server("https://fed.example.org").server("http://127.0.0.1:80").server("http://[::1]:80");
        for (String url :
                new String[] {
                    "http://fed.example.org", "http://127.0.0.1.example.org", "ftp://127.0.0.1", "fed"
                }) {
            assertThrows(IllegalArgumentException.class, () -> fresh.server(url), url);
        }
        fresh.allowHttp(true).server("http://coordinator:8080");
    }

    @Test
    void thePaceFollowsTheCoordinatorAndBacksOff() {
        Pace pace = Pace.DEFAULT;
        assertEquals(900, pace.nextDelay(RoundReport.joined(1L, 1, 0.5), 0, 0.5), 1e-9);
        assertEquals(50, pace.nextDelay(RoundReport.blocked("no-round", 50.0), 0, 0), 1e-9);
        assertEquals(1, pace.nextDelay(RoundReport.blocked("no-round", 0.0), 0, 0), 1e-9);
        assertEquals(86_400, pace.nextDelay(RoundReport.blocked("too-soon", 1e9), 0, 0.9), 1e-9);
        RoundReport silent = RoundReport.blocked(Eligibility.UNREACHABLE);
        assertEquals(15, pace.nextDelay(silent, 1, 0), 1e-9);
        assertEquals(60, pace.nextDelay(silent, 3, 0), 1e-9);
        assertEquals(43_200, pace.nextDelay(silent, 1000, 0), 1e-9);
        assertEquals(60, pace.nextDelay(RoundReport.blocked(Eligibility.METERED), 0, 0), 1e-9);
    }
}
