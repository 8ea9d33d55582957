package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.security.KeyPair;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A token is for one enrolment: an answer that is lost on the way must not cost it (3.11). */
class EnrolmentTest {
    @TempDir File folder;
    private final List<byte[]> keys = new ArrayList<>();
    private boolean lost;
    private final MadeCoordinator coordinator =
            new MadeCoordinator() {
                @Override
                public Enrolled enrol(String token, byte[] publicKey, Proof proof) {
                    keys.add(publicKey);
                    Enrolled answer = super.enrol(token, publicKey, proof);
                    if (lost) {
                        throw silence();
                    }
                    return answer;
                }
            };

    private FedRap device() {
        Config config = new Config(folder).token("a token");
        config.transport = coordinator;
        FedRap device = FedRap.open(config);
        device.consent(true, "v1");
        device.record("item-1");
        return device;
    }

    @Test
    void aLostAnswerIsAskedForAgainWithTheSameKeyAlsoAfterARestart() {
        lost = true;
        try (FedRap device = device()) {
            assertEquals(Eligibility.UNREACHABLE, device.runRound().blockedBy);
            assertEquals(Eligibility.UNREACHABLE, device.runRound().blockedBy);
            assertFalse(device.status().enrolled);
        }
        lost = false;
        try (FedRap device = device()) {
            assertTrue(device.runRound().joined);
            assertTrue(device.status().enrolled);
        }
        assertEquals(3, keys.size());
        assertArrayEquals(keys.get(0), keys.get(1));
        assertArrayEquals(keys.get(0), keys.get(2));
    }

    @Test
    void theKeyIsInTheStoreBeforeItLeavesAndDroppedWithTheCredentials() {
        SealedStore store = SealedStore.open(folder, new FixedKey(1));
        DeviceState state = new DeviceState(store, () -> 1e9, new Retention(10, 10), Kinds.anyWord(), new Withdrawal(folder));
        KeyPair key = state.enrollingKey();
        byte[] secret = P256.secret(key.getPrivate());
        byte[] point = P256.point(key.getPublic());
        assertArrayEquals(point, Opener.pointOf(secret));
        DeviceState again = new DeviceState(store, () -> 1e9, new Retention(10, 10), Kinds.anyWord(), new Withdrawal(folder));
        assertArrayEquals(secret, P256.secret(again.enrollingKey().getPrivate()));
        assertArrayEquals(point, P256.point(again.enrollingKey().getPublic()));
        byte[] none = new byte[0];
        state.keepCredentials(
                new Credentials(
                        new byte[16], new byte[16], secret, point, none, none,
                        Double.POSITIVE_INFINITY));
        assertNull(store.get("enrolling"));
        assertArrayEquals(secret, state.credentials().secret);
        assertFalse(Arrays.equals(secret, P256.secret(state.enrollingKey().getPrivate())), "never used twice");
        state.close();
    }
}
