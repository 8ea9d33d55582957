package io.fedrap.android;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.fedrap.core.FedRapException;
import io.fedrap.core.FedRapException.Kind;
import io.fedrap.core.KeyProvider;
import java.io.File;
import java.nio.file.Files;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.junit.runner.RunWith;
import org.robolectric.RobolectricTestRunner;

/** The wrapped key, and every way to lose it. */
@RunWith(RobolectricTestRunner.class)
public class KeystoreWrapTest {
    @Rule public TemporaryFolder folder = new TemporaryFolder();
    private File file;

    @Before
    public void install() {
        TestKeystore.install();
        file = new File(folder.getRoot(), "fedrap.key");
    }

    @After
    public void uninstall() {
        TestKeystore.uninstall();
    }

    private KeyProvider wrap() {
        return new KeystoreWrap(file);
    }

    private void isLost() {
        FedRapException error = assertThrows(FedRapException.class, () -> wrap().key(true));
        assertEquals(Kind.STORE_LOCKED, error.kind());
    }

    @Test
    public void theSameKeyEachTimeAndNeverInClearOnDisk() throws Exception {
        byte[] key = wrap().key(false);
        assertEquals(32, key.length);
        assertArrayEquals(key, wrap().key(true));
        assertArrayEquals(key, wrap().key(false)); // the process died before the store was made
        byte[] kept = Files.readAllBytes(file.toPath());
        assertEquals(12 + 32 + 16, kept.length);
        String hex = new java.math.BigInteger(1, kept).toString(16);
        assertFalse(hex.contains(new java.math.BigInteger(1, key).toString(16)));
        assertNull("the wrapping key is not exportable", TestKeystore.entry(KeystoreWrap.ALIAS).getEncoded());
    }

    @Test
    public void aKeyThatIsGoneInvalidatedOrAnotherIsLost() {
        wrap().key(false);
        TestKeystore.invalidate(KeystoreWrap.ALIAS);
        isLost();
        TestKeystore.replace(KeystoreWrap.ALIAS);
        isLost();
        TestKeystore.loseKeys();
        isLost();
    }

    @Test
    public void aFileThatIsGoneChangedOrCutShortIsLost() throws Exception {
        wrap().key(false);
        byte[] kept = Files.readAllBytes(file.toPath());
        byte[] changed = kept.clone();
        changed[20] ^= 1;
        Files.write(file.toPath(), changed);
        isLost();
        Files.write(file.toPath(), java.util.Arrays.copyOf(kept, 40));
        isLost();
        Files.write(file.toPath(), new byte[0]);
        isLost();
        assertTrue(file.delete());
        isLost();
    }

    @Test
    public void whatOpensNothingIsReplacedWhereThereIsNoStore() {
        byte[] old = wrap().key(false);
        TestKeystore.loseKeys();
        byte[] fresh = wrap().key(false);
        assertFalse(java.util.Arrays.equals(old, fresh));
        assertArrayEquals(fresh, wrap().key(true));
    }

    @Test
    public void aKeystoreThatIsBusyIsAskedAgain() {
        byte[] key = wrap().key(false);
        TestKeystore.silentCalls = 2;
        assertArrayEquals(key, wrap().key(true));
        TestKeystore.silentCalls = 100;
        isLost();
        TestKeystore.silentCalls = 0;
        assertArrayEquals("nothing was deleted meanwhile", key, wrap().key(true));
    }

    @Test
    public void withoutAKeystoreTheKeyIsInAPrivateFile() throws Exception {
        TestKeystore.makesNoKeys = true;
        byte[] key = wrap().key(false);
        assertArrayEquals(key, Files.readAllBytes(file.toPath()));
        TestKeystore.uninstall();
        assertArrayEquals(key, wrap().key(true));
    }

    @Test
    public void erasingDeletesBothHalves() {
        wrap().key(false);
        assertNotNull(TestKeystore.entry(KeystoreWrap.ALIAS));
        wrap().erase();
        assertNull(TestKeystore.entry(KeystoreWrap.ALIAS));
        assertFalse(file.exists());
        wrap().erase(); // nothing to delete is no error
    }
}
