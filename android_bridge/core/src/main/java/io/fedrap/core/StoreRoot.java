package io.fedrap.core;

import java.io.IOException;

/**
 * How far a store has come, sealed in a small file of its own: the generation of its snapshot, and
 * how many records of that generation's journal are on the disk for good.
 *
 * <p>Each record is sealed for its place, so none can be changed, swapped or left out in the middle.
 * That one is missing at the end only this file can tell. It is written after the records that it
 * counts, so after a crash it may count too few and never too many: fewer records than it counts are
 * damage, more are what a crash left. Who puts back older copies of all files is not seen; without
 * hardware that counts nothing on the device could tell.
 */
final class StoreRoot {
    static final String NAME = "root";
    static final String PART = "root.part";

    private static final String PLACE = "|2|root";

    final long generation;
    final int records;

    StoreRoot(long generation, int records) {
        this.generation = generation;
        this.records = records;
    }

    /**
     * What the file says.
     *
     * @throws FedRapException STORE_DAMAGED: it is missing or was changed.
     */
    static StoreRoot read(FileLayer files, Sealer sealer) throws IOException {
        byte[] raw = files.read(NAME);
        byte[] said = raw == null ? null : sealer.open(PLACE, raw, 0, raw.length);
        if (said == null || said.length != 12) {
            throw FedRapException.damaged(
                    "the store's root is " + (raw == null ? "missing" : "changed")
                            + "; delete the store to start afresh");
        }
        return new StoreRoot(
                Bytes.fromBigEndian(said, 0, 8), (int) Bytes.fromBigEndian(said, 8, 4));
    }

    /** The old file stays until the new one is whole. */
    void write(FileLayer files, Sealer sealer) throws IOException {
        byte[] said = Bytes.join(Bytes.bigEndian(generation, 8), Bytes.bigEndian(records, 4));
        files.write(PART, sealer.seal(PLACE, said));
        files.sync(PART);
        files.rename(PART, NAME);
        files.syncFolder();
    }

    /**
     * Does a snapshot with this journal hold all that was counted? A newer snapshot does: a crash
     * came before its root was written.
     *
     * @throws FedRapException STORE_DAMAGED: it does not.
     */
    void check(long found, int read) {
        if (found < generation || (found == generation && read < records)) {
            throw FedRapException.damaged(
                    "the last changes of the store are missing: its files were cut or put back to an"
                            + " earlier state; delete the store to start afresh");
        }
    }
}
