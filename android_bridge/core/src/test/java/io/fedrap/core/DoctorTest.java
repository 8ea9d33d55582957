package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fedrap.core.FedRapException.Kind;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Arrays;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Stores that do not open: what is wrong is said, what can be read comes back, nothing is lost. */
class DoctorTest {
    @TempDir File folder;
    private Config config;
    private File store;

    @BeforeEach
    void fill() {
        config = new Config(folder);
        store = new File(folder, "app");
        try (FedRap device = FedRap.open(config)) {
            device.consent(true, "v1");
            for (int i = 0; i < 20; i++) {
                device.record("item-" + i);
            }
        }
        FedRap.open(config).close(); // whoever has read records relies on them from then on
    }

    private File journal() {
        for (File one : store.listFiles()) {
            if (one.getName().startsWith(StoreFiles.JOURNAL)) {
                return one;
            }
        }
        throw new AssertionError("no journal");
    }

    @Test
    void aHealthyStoreIsLeftAlone() {
        Diagnosis found = FedRap.examine(config);
        assertTrue(found.opens && found.findings.isEmpty() && !found.ledgerLost);
        assertEquals(20, found.interactions);
        assertEquals(20, FedRap.repair(config).interactions);
        assertFalse(new File(store, Doctor.DAMAGED).exists());
        try (FedRap device = FedRap.open(config)) {
            assertEquals(Eligibility.NO_SERVER, device.status().blockedBy);
            assertEquals(20, device.status().interactions);
        }
    }

    @Test
    void recordsThatWereCutOffAreDamageAndTheRestComesBack() throws IOException {
        byte[] raw = Files.readAllBytes(journal().toPath());
        byte[] cut = Arrays.copyOf(raw, raw.length - 100);
        Files.write(journal().toPath(), cut);
        Diagnosis found = FedRap.examine(config);
        assertFalse(found.opens);
        assertEquals(1, found.findings.size());
        assertEquals(Kind.STORE_DAMAGED, assertThrows(FedRapException.class, () -> FedRap.open(config)).kind());
        Diagnosis after = FedRap.repair(config);
        assertTrue(after.opens && after.ledgerLost);
        assertTrue(after.interactions >= 18 && after.interactions < 20, "" + after.interactions);
        String name = journal().getName();
        File kept = new File(new File(store, Doctor.DAMAGED), name);
        assertTrue(!kept.exists() || Arrays.equals(cut, Files.readAllBytes(kept.toPath())));
        try (FedRap device = FedRap.open(config)) {
            assertEquals(after.interactions, device.status().interactions);
            assertEquals(Eligibility.LEDGER_LOST, device.status().blockedBy);
            device.record("item-99");
            device.erase();
        }
        assertFalse(store.exists());
    }

    @Test
    void aStoreWithoutItsRootOrWithAChangedRecordComesBack() throws IOException {
        assertTrue(new File(store, StoreRoot.NAME).delete());
        assertFalse(FedRap.examine(config).opens);
        assertEquals(20, FedRap.repair(config).interactions);
        FedRap.open(config).close();
        byte[] raw = Files.readAllBytes(journal().toPath());
        raw[raw.length / 3] ^= 1;
        Files.write(journal().toPath(), raw);
        assertTrue(FedRap.repair(config).opens);
        FedRap.open(config).close();
    }

    @Test
    void whatIsNotThereBusyOrLockedIsSaid() {
        Config elsewhere = new Config(new File(folder, "elsewhere"));
        assertEquals(
                Kind.STORE_DAMAGED,
                assertThrows(FedRapException.class, () -> FedRap.examine(elsewhere)).kind());
        try (FedRap device = FedRap.open(config)) {
            assertTrue(device.isOpen());
            assertEquals(
                    Kind.STORE_BUSY,
                    assertThrows(FedRapException.class, () -> FedRap.repair(config)).kind());
        }
        Config other = new Config(folder).key(new FixedKey(9));
        assertEquals(
                Kind.STORE_LOCKED,
                assertThrows(FedRapException.class, () -> FedRap.examine(other)).kind());
    }

    @Test
    void consentIsTakenBackWhileTheStoreIsOpenElsewhere() {
        MadeCoordinator coordinator = new MadeCoordinator();
        config.token("a token").transport = coordinator;
        try (FedRap device = FedRap.open(config)) {
            coordinator.whileAnswering.put("offer", () -> FedRap.withdraw(config));
            assertEquals(Eligibility.NO_CONSENT, device.runRound().blockedBy);
            assertFalse(coordinator.calls.contains("send"));
            assertFalse(device.status().consented);
            assertEquals(Boolean.FALSE, device.status().fetching);
            device.consent(true, "v2"); // an answer that is given afterwards counts
            assertTrue(device.runRound().joined);
        }
        FedRap.withdraw(config);
        try (FedRap device = FedRap.open(config)) {
            assertFalse(device.status().consented);
            assertEquals(0, device.status().pending);
        }
    }

    @Test
    void aRefusalForGoodIsAskedForAgainInDaysAlsoByAnotherProcess() {
        MadeCoordinator coordinator = new MadeCoordinator();
        double[] now = {1_700_000_000.0};
        config.token("a token").transport = coordinator;
        config.clock = () -> now[0];
        coordinator.failing.put("offer", MadeCoordinator.refusal("budget-spent", null));
        double wait;
        try (FedRap device = FedRap.open(config)) {
            RoundReport report = device.runRound();
            assertEquals("budget-spent", report.blockedBy);
            wait = report.retryAfter;
            assertTrue(wait >= 86_400 && wait <= 3 * 86_400, "" + wait);
        }
        int asked = coordinator.calls.size();
        for (int i = 0; i < 3; i++) {
            now[0] += 900;
            try (FedRap device = FedRap.open(config)) {
                assertEquals("budget-spent", device.runRound().blockedBy);
                assertEquals("budget-spent", device.status().blockedBy);
            }
        }
        assertEquals(asked, coordinator.calls.size(), "nobody was asked");
        coordinator.failing.clear();
        try (FedRap device = FedRap.open(config)) {
            config.token("another token");
            assertTrue(device.runRound().joined, "another token is not told to wait");
            assertEquals(null, device.status().blockedBy);
        }
    }
}
