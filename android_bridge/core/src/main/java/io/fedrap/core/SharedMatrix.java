package io.fedrap.core;

import java.security.MessageDigest;

/**
 * One release of C as a device holds it: int8 rows with a scale each, never a float copy of all.
 *
 * <p>What is made from a message was checked against the hash that it states, and is immutable.
 */
final class SharedMatrix {
    static final int MAX_RELEASE_BYTES = 256 * 1024 * 1024;
    static final float LARGEST_SCALE = 1e4f; // an honest C has entries of about one

    final long version;
    final QuantizedRows items; // (m, k)
    final SequenceRows sequence; // null: this task has no sequence part
    final Trend trend; // null: this release says nothing of what was touched lately

    SharedMatrix(long version, QuantizedRows items) {
        this(version, items, null, null);
    }

    /**
     * C from its numbers, with the sequence part and the trend where there are such.
     *
     * @throws FedRapException BROKEN_MODEL where scales are negative, huge or not finite
     */
    SharedMatrix(long version, QuantizedRows items, SequenceRows sequence, Trend trend) {
        check(items);
        if (sequence != null && sequence.size() != items.size()) {
            throw FedRapException.broken("a sequence part of another number of rows than C");
        }
        this.version = version;
        this.items = items;
        this.sequence = sequence;
        this.trend = trend;
    }

    static void check(QuantizedRows items) {
        if (items.dim < 1 || items.values.length != (long) items.size() * items.dim) {
            throw FedRapException.broken("C has values and scales of different shapes");
        }
        for (float scale : items.scales) {
            if (!(scale >= 0 && scale <= LARGEST_SCALE)) { // also for NaN
                throw FedRapException.broken("C has scales that are negative, huge or not finite");
            }
        }
    }

    /**
     * C of a release.
     *
     * @throws FedRapException BROKEN_MODEL where sizes disagree, the hash is another, or the numbers
     *     are unusable
     */
    static SharedMatrix of(ReleaseMessage release) {
        servedRows(release.withheld, release.size);
        QuantizedRows items =
                QuantizedRows.whole(
                        release.size, release.dim, release.scales, release.bitmap, release.values);
        SequenceRows part =
                release.sequence == null ? null : SequenceRows.of(release.sequence, release.size);
        Trend trend = Trend.of(release.trend, release.size);
        if (!MessageDigest.isEqual(hash(items, part, trend), release.model)) {
            throw FedRapException.broken("a release whose numbers do not have the hash that it states");
        }
        return new SharedMatrix(release.version, items, part, trend);
    }

    /**
     * C of the delta's version; this one stays as it is.
     *
     * @throws FedRapException BROKEN_MODEL where the delta is for another version, damaged, or gives
     *     another C than it says: fetch the whole then
     */
    SharedMatrix apply(ReleaseMessage delta) {
        if (delta.since != version || delta.dim != dim() || delta.size < size()) {
            throw FedRapException.broken("a delta from version " + delta.since + "; " + version + " is held");
        }
        servedRows(delta.withheld, delta.size);
        QuantizedRows grown =
                items.patched(delta.size, delta.rows, delta.scales, delta.bitmap, delta.values);
        SequenceRows part = null;
        if (delta.sequence != null) {
            if (sequence == null) {
                throw FedRapException.broken("a delta of a sequence part that this device does not hold");
            }
            part = sequence.apply(delta.sequence, delta.size);
        }
        Trend newest = Trend.of(delta.trend, delta.size);
        if (!MessageDigest.isEqual(hash(grown, part, newest), delta.model)) {
            throw FedRapException.broken("a delta whose result does not have the hash that it states");
        }
        return new SharedMatrix(delta.version, grown, part, newest);
    }

    static byte[] hash(QuantizedRows items) {
        return hash(items, null, null);
    }

    /** SHA-256 of all the numbers of a release (PROTOCOL 7.2, 10.5, 12.4). */
    static byte[] hash(QuantizedRows items, SequenceRows part, Trend trend) {
        byte[] rows = hash(items, part);
        if (trend == null) {
            return rows;
        }
        MessageDigest all = Bytes.newSha256();
        all.update(Bytes.ascii("fedrap/1 trend"));
        all.update(rows);
        return all.digest(trend.raw);
    }

    private static byte[] hash(QuantizedRows items, SequenceRows part) {
        MessageDigest digest = Bytes.newSha256();
        digest.update(Bytes.ascii("fedrap/1 model"));
        digest.update(Bytes.bytes(new int[] {items.size(), items.dim}));
        digest.update(Bytes.bytes(items.scales));
        digest.update(items.values);
        byte[] first = digest.digest();
        if (part == null) {
            return first;
        }
        MessageDigest both = Bytes.newSha256();
        both.update(Bytes.ascii("fedrap/1 sequence"));
        both.update(first);
        part.hash(both);
        return both.digest();
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

    /**
     * C'C, once per release: (k·k).
     *
     * @param without rows of items that can be chosen no more, which are left out: nobody passes over
     *     those; null: none
     */
    double[] gram(boolean[] without) {
        int k = dim();
        double[] total = new double[k * k];
        double[] row = new double[k];
        for (int j = 0; j < size(); j++) {
            if (without != null && without[j]) {
                continue;
            }
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

    /**
     * solve·u·C_j + sequence·(q·C'_j + kappa·b_j) + weight·t_j of each allowed row, with C' and b of the
     * sequence part; minus infinity of any other. Without a part u·C_j + weight·t_j.
     */
    float[] scores(double[] user, double weight, SequenceUser part, boolean[] allowed) {
        float[] u = floats(user, part == null ? 1.0 : part.scoring.solve);
        float[] q = part == null ? null : floats(part.query, part.scoring.sequence);
        float popularity =
                part == null ? 0f : (float) (part.scoring.sequence * part.scoring.kappa);
        QuantizedRows outputs = part == null ? null : sequence.outputs;
        float[] scores = new float[size()];
        for (int row = 0; row < scores.length; row++) {
            float score = Float.NEGATIVE_INFINITY;
            if (allowed[row]) {
                score = product(items.values, row * dim(), u) * items.scales[row];
                if (q != null) {
                    score += product(outputs.values, row * outputs.dim, q) * outputs.scales[row];
                    score += popularity * sequence.bias[row];
                }
                score += lately(row, weight);
            }
            scores[row] = score;
        }
        return scores;
    }

    private float lately(int row, double weight) {
        return trend == null || weight == 0 ? 0f : (float) (weight * trend.of(row));
    }

    private static float[] floats(double[] numbers, double factor) {
        float[] out = new float[numbers.length];
        for (int i = 0; i < out.length; i++) {
            out[i] = (float) (factor * numbers[i]);
        }
        return out;
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
