package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.io.IOException;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Map;

/**
 * All values of a store in one file, replaced as a whole.
 *
 * <pre>
 * "fedrap" · u16 schema · random name of the store (16) · u64 generation · sealed nothing, which
 * tells a wrong key from a damaged file · the sealed values
 * </pre>
 *
 * <p>Each generation has a journal of its own, so a crash between two files mixes none of them up.
 */
final class Snapshot {
    static final String NAME = "snapshot";
    static final String PART = "snapshot.part";
    static final int SCHEMA = 2;
    static final int ROOTLESS = 1; // the schema of stores from before there was a root

    private static final byte[] MAGIC = Bytes.ascii("fedrap");
    private static final int HEAD = 6 + 2 + 16 + 8;

    final int schema; // these three stand in clear
    final byte[] storeName;
    final long generation;

    Snapshot(int schema, byte[] storeName, long generation) {
        this.schema = schema;
        this.storeName = storeName;
        this.generation = generation;
    }

    /** The one that takes the place of this. */
    Snapshot next() {
        return new Snapshot(SCHEMA, storeName, generation + 1);
    }

    static Snapshot newHead() {
        byte[] name = new byte[16];
        new SecureRandom().nextBytes(name);
        return new Snapshot(SCHEMA, name, 1);
    }

    /**
     * The head of a file.
     *
     * @throws FedRapException STORE_DAMAGED: it is not a snapshot, or of a newer version.
     */
    static Snapshot head(byte[] raw) {
        boolean ours = raw.length >= HEAD && Arrays.equals(Arrays.copyOf(raw, 6), MAGIC);
        if (!ours) {
            throw FedRapException.damaged(
                    "the store's snapshot was cut or is something else; delete the store to start afresh");
        }
        long schema = Bytes.fromBigEndian(raw, 6, 2);
        if (schema < ROOTLESS || schema > SCHEMA) {
            throw FedRapException.damaged(
                    "the store has schema " + schema + ", this version reads up to " + SCHEMA
                            + "; update the app, or delete the store to start afresh");
        }
        return new Snapshot(
                (int) schema, Arrays.copyOfRange(raw, 8, 24), Bytes.fromBigEndian(raw, 24, 8));
    }

    /**
     * The values of a file.
     *
     * @throws FedRapException STORE_LOCKED: they were sealed with another key.
     * @throws FedRapException STORE_DAMAGED: they were changed since.
     */
    static Map<String, Object> values(Snapshot head, Sealer sealer, byte[] raw) {
        int from = HEAD + Sealer.OVERHEAD;
        if (raw.length < from) {
            throw FedRapException.damaged(
                    "the store's snapshot was cut; delete the store to start afresh");
        }
        if (sealer.open("|1|check", raw, HEAD, Sealer.OVERHEAD) == null) {
            throw new FedRapException(
                    Kind.STORE_LOCKED,
                    "the key does not open this store; give the key that it was made with,"
                            + " or delete the store's folder to start afresh");
        }
        byte[] values = sealer.open(place(head), raw, from, raw.length - from);
        if (values == null) {
            throw FedRapException.damaged(
                    "the store's snapshot was changed; delete the store to start afresh");
        }
        return Changes.decode(values);
    }

    /** The old file stays until the new one is whole; returns its size. */
    static int write(FileLayer files, Snapshot head, Sealer sealer, Map<String, Object> values)
            throws IOException {
        byte[] whole =
                Bytes.join(
                        MAGIC, Bytes.bigEndian(head.schema, 2), head.storeName,
                        Bytes.bigEndian(head.generation, 8),
                        sealer.seal("|1|check", new byte[0]),
                        sealer.seal(place(head), Changes.encode(values)));
        files.write(PART, whole);
        files.sync(PART);
        files.rename(PART, NAME);
        files.syncFolder();
        return whole.length;
    }

    /** After a failure: was the file replaced all the same? */
    static boolean isInPlace(FileLayer files, Snapshot head) {
        try {
            byte[] raw = files.read(NAME);
            return raw != null && head(raw).generation == head.generation;
        } catch (IOException error) {
            throw FedRapException.damaged("the store cannot be read: " + error.getMessage(), error);
        }
    }

    private static String place(Snapshot head) {
        // With the schema, so that none with a root can be called one of before there were roots.
        return "|" + head.schema + "|snapshot|" + head.generation;
    }
}
