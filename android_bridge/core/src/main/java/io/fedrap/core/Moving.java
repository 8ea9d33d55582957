package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;
import javax.crypto.Cipher;

/**
 * A history that moves to another device: an export that can be read back, sealed if asked. The file is
 * the same as Python's. Consent stays behind: every device asks.
 */
final class Moving {
    private static final byte[] MAGIC = Bytes.ascii("fedrap sealed export 1\n");
    private static final int MOST_BYTES = 64_000_000; // of a file, and of what is in it
    private static final int SALT = 16;
    private static final int IV = 12;
    private static final int COST = 1 << 15; // 32 MB for each try

    final List<Interaction> interactions = new ArrayList<>();
    final List<String> hidden = new ArrayList<>();
    final List<Ledger.Entry> entries = new ArrayList<>();

    /** An export that only the passphrase opens. */
    static byte[] seal(byte[] raw, String passphrase) {
        byte[] salt = new byte[SALT];
        byte[] iv = new byte[IV];
        SecureRandom random = new SecureRandom();
        random.nextBytes(salt);
        random.nextBytes(iv);
        try {
            return Bytes.join(MAGIC, salt, iv, crypt(Cipher.ENCRYPT_MODE, passphrase, salt, iv, raw));
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("every platform has AES/GCM", error);
        }
    }

    /**
     * What a file of an export holds, checked whole before anything is kept.
     *
     * @throws FedRapException MALFORMED_MESSAGE: it is none, needs another passphrase, or holds something
     *     impossible.
     */
    static Moving read(File file, String passphrase) throws IOException {
        if (file.length() > MOST_BYTES) {
            throw broken("an export has at most " + MOST_BYTES + " bytes", null);
        }
        byte[] raw = Files.readAllBytes(file.toPath());
        boolean sealed =
                raw.length > MAGIC.length && Arrays.equals(MAGIC, Arrays.copyOf(raw, MAGIC.length));
        Map<String, byte[]> files = unzipped(sealed ? opened(raw, passphrase) : raw);
        if (!files.containsKey("interactions.json") && !files.containsKey("hidden.json")) {
            throw broken("this is no export; nothing was taken over", null);
        }
        Moving moved = new Moving();
        try {
            for (Object one : list(files, "interactions.json")) {
                moved.interactions.add(interaction((Map<?, ?>) one));
            }
            for (Object one : list(files, "hidden.json")) {
                moved.hidden.add(Arguments.item("item", (String) one));
            }
            for (Object one : list(files, "ledger.json")) {
                moved.entries.add(entry((Map<?, ?>) one));
            }
        } catch (RuntimeException error) { // a wrong type, a missing field, no time, no item
            throw broken("this is no export (" + error.getMessage() + "); nothing was taken over", error);
        }
        return moved;
    }

    private static byte[] opened(byte[] raw, String passphrase) {
        if (passphrase == null) {
            throw broken("this export is sealed: give the passphrase that it was made with", null);
        }
        int start = MAGIC.length;
        byte[] salt = Arrays.copyOfRange(raw, start, start + SALT);
        byte[] iv = Arrays.copyOfRange(raw, start + SALT, start + SALT + IV);
        byte[] sealed = Arrays.copyOfRange(raw, Math.min(raw.length, start + SALT + IV), raw.length);
        try {
            return crypt(Cipher.DECRYPT_MODE, passphrase, salt, iv, sealed);
        } catch (GeneralSecurityException error) {
            throw broken("the passphrase does not open this export, or it is damaged", error);
        }
    }

    private static byte[] crypt(int mode, String passphrase, byte[] salt, byte[] iv, byte[] input)
            throws GeneralSecurityException {
        byte[] secret = passphrase.getBytes(StandardCharsets.UTF_8);
        byte[] key = Scrypt.derive(secret, salt, COST, 8, 1, 32);
        Cipher cipher = Sealer.gcm(mode, key, iv);
        cipher.updateAAD(MAGIC);
        return cipher.doFinal(input);
    }

    /** The files of a zip, together no larger than is allowed. */
    private static Map<String, byte[]> unzipped(byte[] raw) throws IOException {
        Map<String, byte[]> found = new HashMap<>();
        long total = 0;
        try (ZipInputStream zip = new ZipInputStream(new ByteArrayInputStream(raw))) {
            byte[] buffer = new byte[8192];
            for (ZipEntry entry = zip.getNextEntry(); entry != null; entry = zip.getNextEntry()) {
                ByteArrayOutputStream out = new ByteArrayOutputStream();
                for (int read = zip.read(buffer); read > 0; read = zip.read(buffer)) {
                    total += read;
                    if (total > MOST_BYTES) {
                        throw broken("an export has at most " + MOST_BYTES + " bytes", null);
                    }
                    out.write(buffer, 0, read);
                }
                found.put(entry.getName(), out.toByteArray());
            }
        } catch (IOException | IllegalArgumentException error) {
            throw broken("this is no export; nothing was taken over", error);
        }
        return found;
    }

    private static List<?> list(Map<String, byte[]> files, String name) {
        byte[] raw = files.get(name); // a version that had no such file had nothing to say
        return raw == null
                ? new ArrayList<>()
                : (List<?>) Json.parse(new String(raw, StandardCharsets.UTF_8));
    }

    private static Interaction interaction(Map<?, ?> one) {
        double weight = ((Number) one.get("weight")).doubleValue();
        return new Interaction((String) one.get("item"), (String) one.get("kind"), weight, seconds(one));
    }

    private static Ledger.Entry entry(Map<?, ?> one) {
        double noise = ((Number) one.get("noise")).doubleValue();
        double delta = ((Number) one.get("delta")).doubleValue();
        Arguments.number("noise", noise, 0, Double.MAX_VALUE, Arguments.FLOOR);
        Arguments.number("delta", delta, 0, 1, Arguments.SHARE);
        byte[] round = Bytes.unhex((String) one.get("round"));
        if (round.length != 16) {
            throw FedRapException.malformed("the id of a round has 16 bytes");
        }
        return new Ledger.Entry(
                (Long) one.get("step"), round, noise, delta, seconds(one), null,
                Boolean.TRUE.equals(one.get("question")));
    }

    /** Since 1970; version 0.1 wrote a date alone. */
    private static double seconds(Map<?, ?> one) {
        Object at = one.containsKey("seconds") ? one.get("seconds") : one.get("at");
        if (at instanceof String) {
            Instant when = java.time.OffsetDateTime.parse((String) at).toInstant();
            return when.getEpochSecond() + when.getNano() / 1e9;
        }
        return ((Number) at).doubleValue();
    }

    private static FedRapException broken(String why, Throwable cause) {
        return new FedRapException(Kind.MALFORMED_MESSAGE, why, cause);
    }
}
