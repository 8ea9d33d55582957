package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fedrap.core.FedRapException.Kind;
import java.util.Arrays;
import java.util.Collections;
import java.util.Random;
import org.junit.jupiter.api.Test;

/**
 * Bytes of a coordinator, changed at random and adopted: a device refuses them in its own words, or
 * uses a release that is whole. Seeded, so that a failure comes again.
 */
class HostileBytesTest {
    private static final int TRIES = 3000;

    private static byte[] mutated(byte[] good, Random random) {
        byte[] bad = good.clone();
        for (int i = random.nextInt(3); i >= 0; i--) {
            bad[random.nextInt(bad.length)] = (byte) random.nextInt(256);
        }
        return random.nextInt(4) > 0 ? bad : Arrays.copyOf(bad, random.nextInt(bad.length + 40));
    }

    @Test
    void releasesAndCatalogues() {
        MadeCoordinator made = new MadeCoordinator();
        Random random = new Random(20);
        int refused = 0;
        for (int i = 0; i < TRIES; i++) {
            byte[] release = mutated(made.rawRelease(), random);
            byte[] catalogue = mutated(MadeCoordinator.rawCatalogue(0), random);
            FaultyFiles files = new FaultyFiles();
            SealedStore store = SealedStore.open(files, null, new FixedKey(1));
            DeviceState state =
                    new DeviceState(
                            store, () -> 0.0, new Retention(100, Double.POSITIVE_INFINITY),
                            Kinds.anyWord(), new Withdrawal(new java.io.File("no-such-folder")));
            try {
                ReleaseMessage message = ReleaseMessage.decode(release, Integer.MAX_VALUE);
                ItemList items = ItemList.decode(catalogue, Integer.MAX_VALUE);
                state.adopt(message, ItemList.EMPTY.extended(items), null);
                state.model()
                        .recommend(
                                state.interactions(), Collections.emptySet(), ItemAttributes.NONE,
                                new Wish(5).explain(true));
            } catch (FedRapException error) {
                refused++;
                assertTrue(
                        error.isOneOf(
                                Kind.MALFORMED_MESSAGE, Kind.BROKEN_MODEL, Kind.UNSUPPORTED_VERSION,
                                Kind.UNSUPPORTED_METHOD),
                        error.kind() + " " + error.getMessage());
                assertEquals(0, store.names(ReleaseHeader.PART).size(), "nothing was kept");
            }
            SealedStore.open(files.restarted(), null, new FixedKey(1));
        }
        assertTrue(refused > TRIES / 2 && refused < TRIES, refused + " of " + TRIES);
    }

    @Test
    void offers() {
        MadeCoordinator made = new MadeCoordinator();
        Random random = new Random(21);
        for (int i = 0; i < TRIES; i++) {
            try {
                Offer offer = Offer.decode(mutated(made.rawOffer(), random));
                Plan.decode(offer.plan);
                Hpke.update(offer, new byte[16], new byte[10]);
            } catch (FedRapException error) {
                assertTrue(
                        error.isOneOf(Kind.MALFORMED_MESSAGE, Kind.UNSUPPORTED_VERSION, Kind.TOO_LARGE),
                        error.kind() + " " + error.getMessage());
            }
        }
    }
}
