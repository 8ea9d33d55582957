package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fedrap.core.FedRapException.Kind;
import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Public attributes of the items: fetched, kept, tested, and never half (clauses 11). */
class AttributesTest {
    @TempDir File folder;
    private final MadeCoordinator coordinator = new MadeCoordinator();
    private Config config;

    @BeforeEach
    void configure() {
        config = new Config(folder).token("a token").attributes(true);
        config.transport = coordinator;
        config.clock = () -> 1_700_000_000.0;
        coordinator.version = 2;
        coordinator.tellAttributes("");
    }

    private FedRap synced() {
        FedRap device = FedRap.open(config);
        device.consent(true, "v1");
        device.record("item-1");
        device.sync();
        return device;
    }

    private static List<String> items(FedRap device, Wish wish) {
        List<String> found = new ArrayList<>();
        for (Recommendation one : device.recommend(wish)) {
            found.add(one.item);
        }
        return found;
    }

    @Test
    void theyAreThereOfflineAndListsAreFilteredByThem() {
        synced().close();
        try (FedRap device = FedRap.open(new Config(folder).offline(true))) {
            assertEquals("{title=Title 3, kind=odd}", device.attributes("item-3").toString());
            assertEquals("{title=Title 7}", device.attributes("item-7").toString());
            assertEquals(Collections.emptyMap(), device.attributes("nothing like it"));
            List<String> all = items(device, new Wish(20));
            List<String> even = new ArrayList<>(all);
            even.retainAll(Arrays.asList("item-0", "item-2", "item-4", "item-6"));
            assertEquals(even, items(device, new Wish(20).where("kind", "even")));
            assertEquals(Collections.singletonList("item-7"), items(device, new Wish(20).where("kind", "")));
            assertEquals(
                    Collections.singletonList("item-4"),
                    items(device, new Wish(20).where("kind", "even").where("title", "Title 4", "x")));
            assertEquals(Collections.emptyList(), items(device, new Wish(20).where("colour", "red")));
            String why = device.because(all.get(0)).words();
            assertTrue(why.isEmpty() || why.equals("because you liked Title 1"), why);
        }
    }

    @Test
    void onlyPagesThatChangedAreFetchedAndAnOlderEntryChangesNothing() {
        try (FedRap device = synced()) {
            assertEquals(2, Collections.frequency(coordinator.calls, "page"));
            coordinator.tellAttributes(", again");
            coordinator.attributesVersion = 2;
            device.sync();
            assertEquals(3, Collections.frequency(coordinator.calls, "page"));
            assertEquals("Title 3, again", device.attributes("item-3").get("title"));
            coordinator.tellAttributes(" of before");
            coordinator.attributesVersion = 1;
            device.sync();
            assertEquals("Title 3, again", device.attributes("item-3").get("title"));
            coordinator.attributePages.clear();
            coordinator.attributesVersion = 3;
            device.sync();
            assertEquals(Collections.emptyMap(), device.attributes("item-3"));
        }
    }

    @Test
    void aPageThatWasNotSignedIsNotTakenAndARoundIsNotHarmed() {
        try (FedRap device = synced()) {
            coordinator.tellAttributes(" new");
            coordinator.attributesVersion = 2;
            coordinator.spoil = true;
            FedRapException error = assertThrows(FedRapException.class, device::sync);
            assertEquals(Kind.BROKEN_MODEL, error.kind());
            assertEquals("Title 3", device.attributes("item-3").get("title"));
            List<Exception> heard = new ArrayList<>();
            config.onError(heard::add);
            coordinator.version = 3;
            assertTrue(device.runRound().joined);
            assertEquals(1, heard.size());
        }
        try (FedRap device = FedRap.open(config)) {
            assertEquals("Title 3", device.attributes("item-3").get("title"));
        }
    }
}
