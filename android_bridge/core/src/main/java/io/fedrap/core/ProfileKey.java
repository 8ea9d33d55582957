package io.fedrap.core;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.Arrays;
import javax.crypto.Cipher;

/**
 * The key of one profile of several: random bytes, sealed with the key of the app; or that key itself, for
 * the store without a profile.
 *
 * <p>Erasing the profile deletes them. The app's own key stays, for it opens other profiles too.
 */
final class ProfileKey implements KeyProvider {
    static final String NAME = "store.wrapped";
    private static final int IV = 12;

    private final File file;
    private final KeyProvider app;
    private final boolean profile; // otherwise the app's own key, as it is
    private final SecureRandom random = new SecureRandom();

    ProfileKey(File folder, KeyProvider app, boolean profile) {
        this.profile = profile;
        this.file = new File(folder, NAME);
        this.app = app;
    }

    @Override
    public byte[] key(boolean storeExists) {
        if (!profile) {
            return app.key(storeExists);
        }
        byte[] outer = app.key(file.exists());
        try {
            if (!file.exists()) {
                if (storeExists) {
                    throw FedRapException.locked("the key of this profile is gone");
                }
                write(outer);
            }
            byte[] sealed = Files.readAllBytes(file.toPath());
            if (sealed.length <= IV) {
                throw FedRapException.locked("the key of this profile was changed");
            }
            return crypt(Cipher.DECRYPT_MODE, outer, sealed, sealed, IV);
        } catch (GeneralSecurityException error) {
            throw FedRapException.locked("the app's key does not open this profile");
        } catch (IOException error) {
            throw SealedStore.unusable(error);
        }
    }

    private void write(byte[] outer) throws IOException, GeneralSecurityException {
        byte[] key = new byte[KEY_BYTES];
        byte[] iv = new byte[IV];
        random.nextBytes(key);
        random.nextBytes(iv);
        byte[] sealed = crypt(Cipher.ENCRYPT_MODE, outer, iv, key, 0);
        FolderFiles.writePrivate(file, Bytes.join(iv, sealed));
    }

    private byte[] crypt(int mode, byte[] outer, byte[] iv, byte[] input, int from)
            throws GeneralSecurityException {
        Cipher cipher = Sealer.gcm(mode, outer, Arrays.copyOf(iv, IV));
        cipher.updateAAD(file.getParentFile().getName().getBytes(StandardCharsets.UTF_8));
        return cipher.doFinal(input, from, input.length - from);
    }

    @Override
    public void erase() {
        if (!profile) {
            eraseLast();
        } else if (file.exists() && !file.delete()) {
            throw FedRapException.damaged("the key of this profile could not be deleted: " + file);
        }
    }

    /** The app's key stays as long as it opens profiles. */
    private void eraseLast() {
        String[] names = file.getParentFile().list();
        for (String name : names == null ? new String[0] : names) {
            if (name.startsWith(FedRap.PROFILE)) {
                return;
            }
        }
        app.erase();
    }
}
