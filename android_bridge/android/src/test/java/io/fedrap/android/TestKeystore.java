package io.fedrap.android;

import android.security.keystore.KeyGenParameterSpec;
import java.io.InputStream;
import java.io.OutputStream;
import java.security.InvalidAlgorithmParameterException;
import java.security.Key;
import java.security.KeyStoreSpi;
import java.security.Provider;
import java.security.ProviderException;
import java.security.SecureRandom;
import java.security.Security;
import java.security.cert.Certificate;
import java.security.spec.AlgorithmParameterSpec;
import java.util.Collections;
import java.util.Date;
import java.util.Enumeration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.crypto.KeyGeneratorSpi;
import javax.crypto.SecretKey;
import javax.crypto.spec.SecretKeySpec;

/**
 * A Keystore of AES-GCM keys that behaves like Android's, which no JVM has: a JCA provider of its name.
 *
 * <p>Keys are not exportable, ciphers refuse an IV that the caller chose for encryption, a key that
 * was invalidated is refused, and the whole can fail to answer.
 */
final class TestKeystore extends Provider {
    private static final Map<String, Opaque> ENTRIES = new ConcurrentHashMap<>();
    static volatile int silentCalls; // so many calls fail
    static volatile boolean makesNoKeys;

    private TestKeystore() {
        super(KeystoreWrap.KEYSTORE, "1", "a Keystore for tests");
        put("KeyStore.AndroidKeyStore", Entries.class.getName());
        put("KeyGenerator.AES", Maker.class.getName());
        put("Cipher.AES/GCM/NoPadding", TestKeystoreCipher.class.getName());
        put("Cipher.AES/GCM/NoPadding SupportedKeyClasses", Opaque.class.getName());
    }

    /** Empty, in place of one that was there. */
    static void install() {
        Security.removeProvider(KeystoreWrap.KEYSTORE);
        Security.addProvider(new TestKeystore());
        ENTRIES.clear();
        silentCalls = 0;
        makesNoKeys = false;
    }

    static void uninstall() {
        Security.removeProvider(KeystoreWrap.KEYSTORE);
    }

    static Key entry(String alias) {
        return ENTRIES.get(alias);
    }

    /** As after a factory reset of the Keystore, or a restored backup. */
    static void loseKeys() {
        ENTRIES.clear();
    }

    /** As when the user removes the lock screen. */
    static void invalidate(String alias) {
        ENTRIES.get(alias).valid = false;
    }

    /** Another key under the same name. */
    static void replace(String alias) {
        ENTRIES.put(alias, new Opaque());
    }

    private static void answer() {
        if (silentCalls > 0) {
            silentCalls--;
            throw new ProviderException("Keystore is busy");
        }
    }

    /** A handle: what it stands for stays inside. */
    static final class Opaque implements SecretKey {
        final SecretKeySpec inside;
        volatile boolean valid = true;

        Opaque() {
            byte[] raw = new byte[32];
            new SecureRandom().nextBytes(raw);
            inside = new SecretKeySpec(raw, "AES");
        }

        @Override
        public String getAlgorithm() {
            return "AES";
        }

        @Override
        public String getFormat() {
            return null;
        }

        @Override
        public byte[] getEncoded() {
            return null;
        }
    }

    /** Made through the provider. */
    public static final class Maker extends KeyGeneratorSpi {
        private KeyGenParameterSpec asked;

        @Override
        protected void engineInit(SecureRandom random) {
            throw new ProviderException("a KeyGenParameterSpec is needed");
        }

        @Override
        protected void engineInit(int size, SecureRandom random) {
            throw new ProviderException("a KeyGenParameterSpec is needed");
        }

        @Override
        protected void engineInit(AlgorithmParameterSpec spec, SecureRandom random)
                throws InvalidAlgorithmParameterException {
            if (!(spec instanceof KeyGenParameterSpec)) {
                throw new InvalidAlgorithmParameterException("not a KeyGenParameterSpec");
            }
            asked = (KeyGenParameterSpec) spec;
            boolean gcm = asked.getBlockModes().length == 1 && asked.getBlockModes()[0].equals("GCM");
            boolean plain = asked.getEncryptionPaddings()[0].equals("NoPadding");
            if (!gcm || !plain || asked.getKeySize() != 256 || asked.isUserAuthenticationRequired()) {
                throw new InvalidAlgorithmParameterException("only AES-256-GCM, without a user");
            }
        }

        @Override
        protected SecretKey engineGenerateKey() {
            answer();
            if (makesNoKeys) {
                throw new ProviderException("Keystore is broken");
            }
            Opaque fresh = new Opaque();
            ENTRIES.put(asked.getKeystoreAlias(), fresh);
            return fresh;
        }
    }

    /** Made through the provider. */
    public static final class Entries extends KeyStoreSpi {
        @Override
        public Key engineGetKey(String alias, char[] password) {
            answer();
            return ENTRIES.get(alias);
        }

        @Override
        public void engineDeleteEntry(String alias) {
            answer();
            ENTRIES.remove(alias);
        }

        @Override
        public boolean engineContainsAlias(String alias) {
            return ENTRIES.containsKey(alias);
        }

        @Override
        public boolean engineIsKeyEntry(String alias) {
            return ENTRIES.containsKey(alias);
        }

        @Override
        public int engineSize() {
            return ENTRIES.size();
        }

        @Override
        public Enumeration<String> engineAliases() {
            return Collections.enumeration(ENTRIES.keySet());
        }

        @Override
        public void engineLoad(InputStream stream, char[] password) {
            answer();
        }

        @Override
        public Certificate[] engineGetCertificateChain(String alias) {
            return null;
        }

        @Override
        public Certificate engineGetCertificate(String alias) {
            return null;
        }

        @Override
        public Date engineGetCreationDate(String alias) {
            return null;
        }

        @Override
        public void engineSetKeyEntry(String alias, Key key, char[] password, Certificate[] chain) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void engineSetKeyEntry(String alias, byte[] key, Certificate[] chain) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void engineSetCertificateEntry(String alias, Certificate certificate) {
            throw new UnsupportedOperationException();
        }

        @Override
        public boolean engineIsCertificateEntry(String alias) {
            return false;
        }

        @Override
        public String engineGetCertificateAlias(Certificate certificate) {
            return null;
        }

        @Override
        public void engineStore(OutputStream stream, char[] password) {
            throw new UnsupportedOperationException();
        }
    }
}
