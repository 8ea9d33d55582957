package io.fedrap.core;

import java.io.IOException;
import java.security.SecureRandom;
import java.util.Collection;
import java.util.List;

/**
 * Large values of a store, each sealed in a file of its own under a random number: none comes twice.
 *
 * <p>A file is durable before the record that names it is written, and deleted after the record that
 * names another one; what nobody names is deleted at the next opening.
 */
final class Blobs {
    static final String NAME = "blob-";

    private final FileLayer files;
    private final Sealer sealer;
    private final SecureRandom random = new SecureRandom();

    Blobs(FileLayer files, Sealer sealer) {
        this.files = files;
        this.sealer = sealer;
    }

    /** The number of a value; {@code made} has it also when this fails half-way. */
    long write(byte[] value, Collection<Long> made) throws IOException {
        long number = random.nextLong() >>> 1;
        made.add(number);
        files.write(NAME + number, sealer.seal(place(number), value));
        files.sync(NAME + number);
        return number;
    }

    /**
     * The value of a number.
     *
     * @throws FedRapException STORE_DAMAGED: it is not there, or was changed.
     */
    byte[] read(long number) {
        byte[] value = null;
        try {
            byte[] raw = files.read(NAME + number);
            value = raw == null ? null : sealer.open(place(number), raw, 0, raw.length);
        } catch (IOException error) {
            throw SealedStore.unusable(error);
        }
        if (value == null) {
            throw missing();
        }
        return value;
    }

    /** Throws STORE_DAMAGED where one of them has no file. */
    static void check(Collection<Long> numbers, List<String> names) {
        for (long number : numbers) {
            if (!names.contains(NAME + number)) {
                throw missing();
            }
        }
    }

    private static FedRapException missing() {
        return FedRapException.damaged(
                "a part of the store is missing or was changed; delete it to start afresh");
    }

    /** What cannot be deleted now is deleted at the next opening. */
    void delete(Collection<Long> numbers) {
        for (long number : numbers) {
            try {
                files.delete(NAME + number);
            } catch (IOException error) {
                // Nobody names it any more.
            }
        }
    }

    private static String place(long number) {
        return "|1|blob|" + number;
    }
}
