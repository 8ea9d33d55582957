package io.fedrap.core;

import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;

/**
 * The records of a journal as bytes, and what is left of them after a crash.
 *
 * <pre>
 * u32 bytes of the sealed part · u32 number of the record · u32 records that were synced before it
 * u32 CRC of those twelve bytes · the sealed part
 * </pre>
 *
 * <p>A loss of power may take any record that was not synced yet, and none that was. So the first
 * record that does not open is where the journal ends, unless a later one says that it was synced:
 * then the file was changed, and what it says cannot be believed.
 */
final class Journal {
    static final int HEAD = 16;

    final List<byte[]> records = new ArrayList<>(); // the good ones of a file
    int end; // bytes of the file that are good

    private Journal() {}

    static byte[] record(Sealer sealer, long generation, int number, int synced, byte[] plaintext) {
        byte[] sealed = sealer.seal(place(generation, number, synced), plaintext);
        byte[] head = head(sealed.length, number, synced);
        return Bytes.join(head, Bytes.bigEndian(crc(head, 0), 4), sealed);
    }

    /**
     * The good records of a file.
     *
     * @param acceptChanged those before the first that does not open, whatever comes after it
     * @throws FedRapException STORE_DAMAGED: a record that was synced does not open.
     */
    static Journal read(Sealer sealer, long generation, byte[] file, boolean acceptChanged) {
        Journal found = new Journal();
        byte[] plaintext;
        while ((plaintext = recordAt(sealer, generation, file, found.end, found.records.size()))
                != null) {
            found.records.add(plaintext);
            found.end += HEAD + (int) Bytes.fromBigEndian(file, found.end, 4);
        }
        for (int at = found.end + 1; !acceptChanged && at + HEAD <= file.length; at++) {
            long number = Bytes.fromBigEndian(file, at + 4, 4);
            long synced = Bytes.fromBigEndian(file, at + 8, 4);
            if (synced <= found.records.size() || number < synced || number > file.length) {
                continue;
            }
            if (recordAt(sealer, generation, file, at, (int) number) != null) {
                throw FedRapException.damaged(
                        "a record of the store was changed; delete the store to start afresh");
            }
        }
        return found;
    }

    /** The record of that number at that place, or null. */
    private static byte[] recordAt(
            Sealer sealer, long generation, byte[] file, int at, int expected) {
        if (at + HEAD > file.length || Bytes.fromBigEndian(file, at + 12, 4) != crc(file, at)) {
            return null;
        }
        long size = Bytes.fromBigEndian(file, at, 4);
        int synced = (int) Bytes.fromBigEndian(file, at + 8, 4);
        boolean fits = size <= file.length - at - HEAD;
        if (!fits || Bytes.fromBigEndian(file, at + 4, 4) != expected) {
            return null;
        }
        return sealer.open(place(generation, expected, synced), file, at + HEAD, (int) size);
    }

    private static byte[] head(int size, int number, int synced) {
        return Bytes.join(
                Bytes.bigEndian(size, 4), Bytes.bigEndian(number, 4), Bytes.bigEndian(synced, 4));
    }

    private static long crc(byte[] raw, int at) {
        CRC32 crc = new CRC32();
        crc.update(raw, at, 12);
        return crc.getValue();
    }

    private static String place(long generation, int number, int synced) {
        return "|1|journal|" + generation + "|" + number + "|" + synced;
    }
}
