package io.fedrap.core;

/**
 * What was touched lately: one number an item, that rounds sum and a release has (PROTOCOL 12).
 */
final class Trend {
    private static final double DAY = 86_400.0; // seconds
    private static final double FADED = 1.0 / 32.0; // of a touch: five half-lives old

    final byte[] raw; // as in a release: f32 little-endian scale, then m i8
    private final double scale;

    private Trend(byte[] raw) {
        this.raw = raw;
        scale = Bytes.wrap(raw).getFloat();
    }

    /**
     * The trend of a release of so many rows; null where it has none.
     *
     * @throws FedRapException BROKEN_MODEL where it has another size, or a scale that is negative, huge or
     *     not finite
     */
    static Trend of(byte[] raw, long size) {
        if (raw == null || raw.length == 0) {
            return null;
        }
        Trend found = raw.length != 4 + size ? null : new Trend(raw);
        if (found == null
                || !(found.scale >= 0 && found.scale <= SharedMatrix.LARGEST_SCALE)) { // also for NaN
            throw FedRapException.broken("an unusable trend");
        }
        return found;
    }

    /** t of an item. */
    double of(int row) {
        return scale * raw[4 + row];
    }

    /** The n allowed rows with the largest t above 0, best first. */
    int[] best(int n, boolean[] allowed) {
        TopN top = new TopN(Math.min(n, allowed.length));
        for (int row = 0; row < allowed.length; row++) {
            if (allowed[row] && raw[4 + row] > 0) {
                top.offer(row, raw[4 + row]);
            }
        }
        return top.rows();
    }

    /** What a device says it touched lately: scale·2^(-age/half) of each liked item's newest touch. */
    static RowPart lately(History history, double now, double halfDays, double scale) {
        int most = -1;
        for (int row : history.rows) {
            most = Math.max(most, row);
        }
        double[] newest = new double[most + 1];
        int count = 0;
        for (int i = 0; history.times != null && i < history.rows.length; i++) {
            double age = Math.max(0.0, now - history.times[i]) / DAY;
            double value = StrictMath.pow(2.0, -age / halfDays);
            int row = history.rows[i];
            if (value > FADED && history.weights[i] > 0) {
                count += newest[row] == 0 ? 1 : 0;
                newest[row] = Math.max(newest[row], value);
            }
        }
        int[] rows = new int[count];
        double[] values = new double[count];
        for (int row = most; row >= 0; row--) {
            if (newest[row] > 0) {
                rows[--count] = row;
                values[count] = scale * newest[row];
            }
        }
        return new RowPart("lately", rows, values, 1);
    }
}
