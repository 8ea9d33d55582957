package io.fedrap.core;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A release as the device keeps it: a small head, and C in chunks of rows.
 *
 * <p>Chunks keep a large C cheap to write: a delta rewrites only those it touches.
 */
final class ReleaseHeader {
    static final int CHUNK = 16_384; // rows of C in one value
    static final String HEAD = "held";
    static final String PART = "c/";
    static final String OUTPUTS = "so/"; // of the sequence part, with their bias
    static final String OFFSETS = "sd/";

    final long version;
    final long step; // 0: no round was released yet, so C has learnt nothing
    final int size;
    final int dim;
    final byte[] model;
    final Scoring scoring;
    final byte[] withheld; // rows not to be recommended, as in a release
    final byte[] entry; // of the log, as signed; empty in stores of before there was one
    final int sequenceDim; // k of the sequence part; 0 without one
    final byte[] kernels; // of the sequence part, as in a release
    final byte[] trend; // as in a release; empty without one

    /** The head of a release whose C was found good, so its size fits. */
    ReleaseHeader(ReleaseMessage message) {
        SequenceBody part = message.sequence;
        version = message.version;
        step = message.step;
        size = (int) message.size;
        dim = message.dim;
        model = message.model;
        scoring = message.scoring;
        withheld = message.withheld;
        entry = message.entry;
        sequenceDim = part == null ? 0 : part.dim;
        kernels = part == null ? new byte[0] : part.kernels;
        trend = message.trend;
    }

    /** As {@link #encode} wrote it. */
    ReleaseHeader(byte[] raw) {
        Fields f = Fields.ofValue(raw, Integer.MAX_VALUE);
        version = f.count("version");
        step = f.count("step");
        size = (int) f.integer("size", 0, Integer.MAX_VALUE);
        dim = (int) f.integer("dim", 1, 512);
        model = f.digest("model");
        scoring = Scoring.from(f.inner("scoring"));
        withheld = f.bytes("withheld");
        entry = f.bytes("entry", 0, Authority.ENTRY_BYTES, new byte[0]);
        sequenceDim = (int) f.integer("sequence_dim", 0, 512, 0);
        kernels = f.bytes("kernels", 0, 4 * 512 * 16, new byte[0]);
        trend = f.bytes("trend", 0, Integer.MAX_VALUE, new byte[0]);
    }

    private byte[] encode() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("version", version);
        map.put("step", step);
        map.put("size", size);
        map.put("dim", dim);
        map.put("model", model);
        map.put("scoring", scoring.toMap());
        map.put("withheld", withheld);
        map.put("entry", entry);
        map.put("sequence_dim", sequenceDim);
        map.put("kernels", kernels);
        map.put("trend", trend);
        return MsgPack.encode(map);
    }

    /** What the store must write for this release: its head and the chunks that it changes. */
    static Map<String, byte[]> values(ReleaseMessage message, SharedMatrix common) {
        boolean delta = message.isDelta();
        Map<String, byte[]> values = new LinkedHashMap<>();
        values.put(HEAD, new ReleaseHeader(message).encode());
        for (int number : touched(common.size(), delta ? message.rows : null)) {
            values.put(PART + number, packed(common.items, number));
        }
        SequenceRows part = common.sequence;
        if (part != null) {
            SequenceBody body = message.sequence;
            for (int number : touched(part.size(), delta ? body.outputRows : null)) {
                int from = number * CHUNK;
                int end = Math.min(part.size(), from + CHUNK);
                byte[] bias = Bytes.bytes(java.util.Arrays.copyOfRange(part.bias, from, end));
                values.put(OUTPUTS + number, Bytes.join(bias, packed(part.outputs, number)));
            }
            for (int number : touched(part.size(), delta ? body.offsetRows : null)) {
                values.put(OFFSETS + number, packed(part.offsets, number));
            }
        }
        return values;
    }

    /** The numbers of all chunks, or of those that have a changed row. */
    private static int[] touched(int size, byte[] changed) {
        boolean[] touched = new boolean[(size + CHUNK - 1) / CHUNK];
        if (changed == null) {
            java.util.Arrays.fill(touched, true);
        } else {
            for (int row : Bytes.integers(changed)) {
                touched[row / CHUNK] = true;
            }
        }
        int[] numbers = new int[touched.length];
        int count = 0;
        for (int number = 0; number < touched.length; number++) {
            if (touched[number]) {
                numbers[count++] = number;
            }
        }
        return java.util.Arrays.copyOf(numbers, count);
    }

    private static byte[] packed(QuantizedRows items, int number) {
        int from = number * CHUNK;
        int rows = Math.min(CHUNK, items.size() - from);
        float[] scales = java.util.Arrays.copyOfRange(items.scales, from, from + rows);
        int dim = items.dim;
        byte[] steps = java.util.Arrays.copyOfRange(items.values, from * dim, (from + rows) * dim);
        return Bytes.join(Bytes.bytes(scales), steps);
    }

    /**
     * C from its chunks. The store vouches for their bytes.
     *
     * @throws FedRapException STORE_DAMAGED: a chunk is missing or has another size.
     */
    SharedMatrix load(SealedStore store) {
        QuantizedRows items = load(store, PART, dim, null);
        if (sequenceDim == 0) {
            return new SharedMatrix(version, items, null, Trend.of(trend, size));
        }
        float[] bias = new float[size];
        QuantizedRows outputs = load(store, OUTPUTS, sequenceDim, bias);
        QuantizedRows offsets = load(store, OFFSETS, sequenceDim, null);
        float[] a = Bytes.floats(kernels);
        SequenceRows part = new SequenceRows(outputs, offsets, bias, a);
        return new SharedMatrix(version, items, part, Trend.of(trend, size));
    }

    /** Rows from their chunks; those with a bias begin with it. */
    private QuantizedRows load(SealedStore store, String name, int wide, float[] bias) {
        byte[] steps = new byte[size * wide];
        float[] scales = new float[size];
        for (int from = 0; from < size; from += CHUNK) {
            int rows = Math.min(CHUNK, size - from);
            int ahead = bias == null ? 0 : 4 * rows;
            byte[] raw = store.get(name + from / CHUNK);
            if (raw == null || raw.length != ahead + rows * (4 + wide)) {
                throw FedRapException.damaged(
                        "a part of C is missing in the store; erase it and sync again");
            }
            float[] numbers = Bytes.floats(java.util.Arrays.copyOf(raw, ahead + 4 * rows));
            if (bias != null) {
                System.arraycopy(numbers, 0, bias, from, rows);
            }
            System.arraycopy(numbers, ahead / 4, scales, from, rows);
            System.arraycopy(raw, ahead + 4 * rows, steps, from * wide, rows * wide);
        }
        return new QuantizedRows(steps, scales, wide);
    }
}
