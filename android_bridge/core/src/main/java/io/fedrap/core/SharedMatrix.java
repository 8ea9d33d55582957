package io.fedrap.core;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/**
 * One release of C as a device holds it: int8 rows with a scale each, never a float copy of all.
 *
 * <p>What is made from a message was checked against the hash that it states, and is immutable.
 */
final class SharedMatrix {
    static final int MAX_RELEASE_BYTES = 256 * 1024 * 1024;
    private static final float LARGEST_SCALE = 1e4f; // an honest C has entries of about one

    final long version;
    final QuantizedRows items; // (m, k)

    /**
     * C from its numbers.
     *
     * @throws FedRapException BROKEN_MODEL where scales are negative, huge or not finite
     */
    SharedMatrix(long version, QuantizedRows items) {
        if (items.dim < 1 || items.values.length != (long) items.size() * items.dim) {
            throw FedRapException.broken("C has values and scales of different shapes");
        }
        for (float scale : items.scales) {
            if (!(scale >= 0 && scale <= LARGEST_SCALE)) { // also for NaN
                throw FedRapException.broken("C has scales that are negative, huge or not finite");
            }
        }
        this.version = version;
        this.items = items;
    }

    /**
     * C of a release.
     *
     * @throws FedRapException BROKEN_MODEL where sizes disagree, the hash is another, or the numbers
     *     are unusable
     */
    static SharedMatrix of(Release release) {
        if (release.scales.length != 4 * release.size) {
            throw FedRapException.broken("a release whose arrays do not have the size that it states");
        }
        servedRows(release.withheld, release.size);
        byte[] values =
                QuantizedRows.unpackEntries(
                        release.bitmap, release.values, release.size * release.dim);
        QuantizedRows items =
                new QuantizedRows(values, LittleEndian.floats(release.scales), release.dim);
        if (!MessageDigest.isEqual(hash(items), release.model)) {
            throw FedRapException.broken("a release whose numbers do not have the hash that it states");
        }
        return new SharedMatrix(release.version, items);
    }

    /**
     * C of the delta's version; this one stays as it is.
     *
     * @throws FedRapException BROKEN_MODEL where the delta is for another version, damaged, or gives
     *     another C than it says: fetch the whole then
     */
    SharedMatrix apply(Delta delta) {
        if (delta.since != version || delta.dim != dim() || delta.size < size()) {
            throw FedRapException.broken("a delta from version " + delta.since + "; " + version + " is held");
        }
        if (delta.rows.length % 4 != 0 || delta.scales.length != delta.rows.length) {
            throw FedRapException.broken("a delta whose arrays do not fit each other");
        }
        int[] rows = LittleEndian.integers(delta.rows);
        // Each row past the old ones must come, so that a stated size costs bytes that were sent.
        long news = 0;
        long before = -1;
        for (int row : rows) {
            long place = Integer.toUnsignedLong(row);
            if (place <= before || place >= delta.size) {
                throw FedRapException.broken("a delta whose rows are out of range or out of order");
            }
            news += place >= size() ? 1 : 0;
            before = place;
        }
        if (news != delta.size - size()) {
            throw FedRapException.broken("a delta that leaves out rows");
        }
        servedRows(delta.withheld, delta.size);
        byte[] changed =
                QuantizedRows.unpackEntries(
                        delta.bitmap, delta.values, (long) rows.length * delta.dim);
        float[] scales = LittleEndian.floats(delta.scales);
        QuantizedRows grown = items.grown((int) delta.size);
        for (int i = 0; i < rows.length; i++) {
            grown.scales[rows[i]] = scales[i];
            System.arraycopy(changed, i * dim(), grown.values, rows[i] * dim(), dim());
        }
        if (!MessageDigest.isEqual(hash(grown), delta.model)) {
            throw FedRapException.broken("a delta whose result does not have the hash that it states");
        }
        return new SharedMatrix(delta.version, grown);
    }

    /** SHA-256 of shape, scales and values (PROTOCOL 7.2). */
    static byte[] hash(QuantizedRows items) {
        MessageDigest digest;
        try {
            digest = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("every platform has SHA-256", error);
        }
        digest.update("fedrap/1 model".getBytes(StandardCharsets.US_ASCII));
        digest.update(LittleEndian.bytes(new int[] {items.size(), items.dim}));
        digest.update(LittleEndian.bytes(items.scales));
        digest.update(items.values);
        return digest.digest();
    }

    /**
     * Which rows may be recommended: those whose bit is not set.
     *
     * @throws FedRapException BROKEN_MODEL where there are not as many bits as rows (7.18)
     */
    static boolean[] servedRows(byte[] withheld, long size) {
        if (withheld.length != 0 && withheld.length != (size + 7) / 8) {
            throw FedRapException.broken("a release that withholds another number of rows than it has");
        }
        if (size > Integer.MAX_VALUE - 8) {
            throw FedRapException.broken("a release of more rows than a device can hold");
        }
        boolean[] served = new boolean[(int) size];
        for (int row = 0; row < served.length; row++) {
            served[row] = withheld.length == 0 || (withheld[row >> 3] >> (row & 7) & 1) == 0;
        }
        return served;
    }

    /** m, the number of rows. */
    int size() {
        return items.size();
    }

    /** k, the length of a row. */
    int dim() {
        return items.dim;
    }

    /**
     * Some rows in float64, one after the other: (n·k).
     *
     * @throws FedRapException WRONG_SHAPE for a row that C does not have
     */
    double[] take(int[] rows) {
        double[] out = new double[rows.length * dim()];
        for (int i = 0; i < rows.length; i++) {
            if (rows[i] < 0 || rows[i] >= size()) {
                throw FedRapException.wrongShape(
                        "C has " + size() + " rows; row " + rows[i] + " was asked for");
            }
            items.read(rows[i], out, i * dim());
        }
        return out;
    }

    /** C'C, once per release: (k·k). */
    double[] gram() {
        int k = dim();
        double[] total = new double[k * k];
        double[] row = new double[k];
        for (int j = 0; j < size(); j++) {
            items.read(j, row, 0);
            for (int a = 0; a < k; a++) {
                double left = row[a];
                if (left != 0) {
                    for (int b = a; b < k; b++) {
                        total[a * k + b] += left * row[b];
                    }
                }
            }
        }
        Dense.mirror(total, k);
        return total;
    }

    /** |C_j| of one item. */
    double norm(int row) {
        long square = 0;
        for (int i = row * dim(); i < (row + 1) * dim(); i++) {
            square += items.values[i] * items.values[i];
        }
        return Math.sqrt(square) * items.scales[row];
    }

    /** The rows of the n largest u·C_j among the allowed, best first, equal ones in order of row. */
    int[] best(double[] user, int n, boolean[] allowed) {
        int k = dim();
        float[] u = new float[k];
        for (int i = 0; i < k; i++) {
            u[i] = (float) user[i];
        }
        TopN top = new TopN(Math.min(n, size()));
        for (int row = 0, at = 0; row < size(); row++, at += k) {
            if (allowed[row]) {
                top.offer(row, product(items.values, at, u) * items.scales[row]);
            }
        }
        return top.rows();
    }

    /** Four sums side by side, because one would wait for itself in every step. */
    private static float product(byte[] values, int at, float[] u) {
        float a = 0;
        float b = 0;
        float c = 0;
        float d = 0;
        int i = 0;
        for (; i + 3 < u.length; i += 4) {
            a += values[at + i] * u[i];
            b += values[at + i + 1] * u[i + 1];
            c += values[at + i + 2] * u[i + 2];
            d += values[at + i + 3] * u[i + 3];
        }
        for (; i < u.length; i++) {
            a += values[at + i] * u[i];
        }
        return (a + b) + (c + d);
    }
}
