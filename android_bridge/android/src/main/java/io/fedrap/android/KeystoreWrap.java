package io.fedrap.android;

import android.security.keystore.KeyGenParameterSpec;
import android.security.keystore.KeyProperties;
import android.util.AtomicFile;
import android.util.Log;
import io.fedrap.core.FedRapException;
import io.fedrap.core.FedRapException.Kind;
import io.fedrap.core.KeyProvider;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.KeyStore;
import java.security.SecureRandom;
import java.security.UnrecoverableKeyException;
import java.util.Arrays;
import javax.crypto.BadPaddingException;
import javax.crypto.Cipher;
import javax.crypto.KeyGenerator;
import javax.crypto.spec.GCMParameterSpec;

/**
 * The store's key in a file, wrapped by a key that never leaves the Keystore.
 *
 * <p>A Keystore that has lost its key, or a file that came from another device, opens nothing: the
 * store counts as lost then, and the device starts afresh rather than fail at each start of the app.
 * A Keystore that does not answer is asked again before it counts as lost. Where it can make no key at
 * all, the store's key is kept in the app's private file alone, and the log says so.
 */
public final class KeystoreWrap implements KeyProvider {
    static final String KEYSTORE = "AndroidKeyStore";
    static final String ALIAS = "io.fedrap.store";

    private static final String TAG = "fedrap";
    private static final String CIPHER = "AES/GCM/NoPadding";
    private static final byte[] PURPOSE = "fedrap store key 1".getBytes(StandardCharsets.US_ASCII);
    private static final int IV_BYTES = 12;
    private static final int TAG_BYTES = 16;
    private static final long[] PAUSES = {50, 200, 500}; // milliseconds

    private final AtomicFile file;

    /** The wrapped key is in this file, made on first use; to be outside backups. */
    public KeystoreWrap(File file) {
        this.file = new AtomicFile(file);
    }

    @Override
    public byte[] key(boolean storeExists) {
        byte[] kept = read();
        if (kept == null) {
            if (storeExists) {
                throw lost("the file of the store's key is gone", null);
            }
            return make();
        }
        try {
            return opened(kept);
        } catch (FedRapException error) {
            if (storeExists) {
                throw error;
            }
            erase(); // it opens nothing any more, and there is nothing to open
            return make();
        }
    }

    @Override
    public void erase() {
        file.delete();
        try {
            KeyStore keystore = keystore();
            keystore.deleteEntry(ALIAS);
        } catch (GeneralSecurityException | IOException | RuntimeException error) {
            Log.w(TAG, "the Keystore kept its key, which opens nothing any more: " + error);
        }
    }

    private byte[] read() {
        try {
            return file.getBaseFile().exists() ? file.readFully() : null;
        } catch (IOException error) {
            throw unusable(error);
        }
    }

    /** A key without a Keystore is as long as a key; one that is wrapped is longer. */
    private byte[] opened(byte[] kept) {
        if (kept.length == KEY_BYTES) {
            return kept;
        }
        if (kept.length != IV_BYTES + KEY_BYTES + TAG_BYTES) {
            throw lost("the file of the store's key was changed", null);
        }
        for (int tries = 0; ; tries++) {
            try {
                return unwrapped(kept);
            } catch (InvalidKeyException | BadPaddingException | UnrecoverableKeyException error) {
                throw lost("the Keystore's key is another one, or no longer valid", error);
            } catch (GeneralSecurityException | IOException | RuntimeException error) {
                if (error instanceof FedRapException) {
                    throw (FedRapException) error;
                }
                if (tries == PAUSES.length) {
                    throw lost("the Keystore does not answer", error);
                }
            }
            pause(PAUSES[tries]);
        }
    }

    private static byte[] unwrapped(byte[] kept) throws GeneralSecurityException, IOException {
        Key wrapping = keystore().getKey(ALIAS, null);
        if (wrapping == null) {
            throw lost("the Keystore has lost its key", null);
        }
        Cipher cipher = Cipher.getInstance(CIPHER);
        byte[] iv = Arrays.copyOf(kept, IV_BYTES);
        cipher.init(Cipher.DECRYPT_MODE, wrapping, new GCMParameterSpec(8 * TAG_BYTES, iv));
        cipher.updateAAD(PURPOSE);
        return cipher.doFinal(kept, IV_BYTES, kept.length - IV_BYTES);
    }

    private byte[] make() {
        byte[] key = new byte[KEY_BYTES];
        new SecureRandom().nextBytes(key);
        try {
            write(wrapped(key));
        } catch (GeneralSecurityException | IOException | RuntimeException error) {
            if (error instanceof FedRapException) {
                throw (FedRapException) error;
            }
            Log.w(TAG, "this device's Keystore makes no keys; the store's key is in a private file", error);
            write(key);
        }
        return key;
    }

    private static byte[] wrapped(byte[] key) throws GeneralSecurityException, IOException {
        KeyGenerator generator = KeyGenerator.getInstance(KeyProperties.KEY_ALGORITHM_AES, KEYSTORE);
        generator.init(
                new KeyGenParameterSpec.Builder(
                                ALIAS, KeyProperties.PURPOSE_ENCRYPT | KeyProperties.PURPOSE_DECRYPT)
                        .setBlockModes(KeyProperties.BLOCK_MODE_GCM)
                        .setEncryptionPaddings(KeyProperties.ENCRYPTION_PADDING_NONE)
                        .setKeySize(256)
                        .build());
        Cipher cipher = Cipher.getInstance(CIPHER);
        cipher.init(Cipher.ENCRYPT_MODE, generator.generateKey()); // the Keystore chooses the iv
        cipher.updateAAD(PURPOSE);
        byte[] sealed = cipher.doFinal(key);
        byte[] iv = cipher.getIV();
        if (iv.length != IV_BYTES) {
            throw new GeneralSecurityException("a Keystore with another kind of GCM");
        }
        byte[] kept = Arrays.copyOf(iv, iv.length + sealed.length);
        System.arraycopy(sealed, 0, kept, iv.length, sealed.length);
        return kept;
    }

    /** There whole or not at all, also when power fails. */
    private void write(byte[] kept) {
        FileOutputStream out = null;
        try {
            out = file.startWrite();
            out.write(kept);
            file.finishWrite(out);
        } catch (IOException error) {
            file.failWrite(out);
            throw unusable(error);
        }
    }

    private static KeyStore keystore() throws GeneralSecurityException, IOException {
        KeyStore keystore = KeyStore.getInstance(KEYSTORE);
        keystore.load(null);
        return keystore;
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static FedRapException lost(String why, Throwable cause) {
        return new FedRapException(Kind.STORE_LOCKED, why, cause);
    }

    /** A disk that is full or away: nothing is lost, and nothing is deleted. */
    private static FedRapException unusable(IOException error) {
        return new FedRapException(
                Kind.STORE_DAMAGED, "the file of the store's key cannot be used: " + error.getMessage(), error);
    }
}
