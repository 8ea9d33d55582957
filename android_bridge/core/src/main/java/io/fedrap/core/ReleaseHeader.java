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

    final long version;
    final long step; // 0: no round was released yet, so C has learnt nothing
    final int size;
    final int dim;
    final byte[] model;
    final Scoring scoring;
    final byte[] withheld; // rows not to be recommended, as in a release
    final byte[] entry; // of the log, as signed; empty in stores of before there was one

    private ReleaseHeader(
            long version,
            long step,
            int size,
            int dim,
            byte[] model,
            Scoring scoring,
            byte[] withheld,
            byte[] entry) {
        this.version = version;
        this.step = step;
        this.size = size;
        this.dim = dim;
        this.model = model;
        this.scoring = scoring;
        this.withheld = withheld;
        this.entry = entry;
    }

    /** The head of a release whose C was found good, so its size fits. */
    static ReleaseHeader of(ReleaseMessage message) {
        Release r = message.release;
        Delta d = message.delta;
        return r != null
                ? new ReleaseHeader(
                        r.version, r.step, (int) r.size, r.dim, r.model, r.scoring, r.withheld, r.entry)
                : new ReleaseHeader(
                        d.version, d.step, (int) d.size, d.dim, d.model, d.scoring, d.withheld, d.entry);
    }

    static ReleaseHeader decode(byte[] raw) {
        Fields f = Fields.ofValue(raw, Integer.MAX_VALUE);
        return new ReleaseHeader(
                f.count("version"), f.count("step"), (int) f.integer("size", 0, Integer.MAX_VALUE),
                (int) f.integer("dim", 1, 512), f.digest("model"), Scoring.from(f.inner("scoring")),
                f.bytes("withheld"), f.bytes("entry", 0, Authority.ENTRY_BYTES, new byte[0]));
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
        return MsgPack.encode(map);
    }

    /** What the store must write for this release: its head and the chunks that it changes. */
    static Map<String, byte[]> values(ReleaseMessage message, SharedMatrix common) {
        ReleaseHeader head = of(message);
        boolean[] touched = new boolean[(common.size() + CHUNK - 1) / CHUNK];
        if (message.delta == null) {
            java.util.Arrays.fill(touched, true);
        } else {
            for (int row : LittleEndian.integers(message.delta.rows)) {
                touched[row / CHUNK] = true;
            }
        }
        Map<String, byte[]> values = new LinkedHashMap<>();
        values.put(HEAD, head.encode());
        for (int number = 0; number < touched.length; number++) {
            if (touched[number]) {
                values.put(PART + number, packed(common.items, number));
            }
        }
        return values;
    }

    private static byte[] packed(QuantizedRows items, int number) {
        int from = number * CHUNK;
        int rows = Math.min(CHUNK, items.size() - from);
        float[] scales = java.util.Arrays.copyOfRange(items.scales, from, from + rows);
        int dim = items.dim;
        byte[] steps = java.util.Arrays.copyOfRange(items.values, from * dim, (from + rows) * dim);
        return Bytes.join(LittleEndian.bytes(scales), steps);
    }

    /**
     * C from its chunks. The store vouches for their bytes.
     *
     * @throws FedRapException STORE_DAMAGED: a chunk is missing or has another size.
     */
    SharedMatrix load(SealedStore store) {
        byte[] steps = new byte[size * dim];
        float[] scales = new float[size];
        for (int from = 0; from < size; from += CHUNK) {
            int rows = Math.min(CHUNK, size - from);
            byte[] raw = store.get(PART + from / CHUNK);
            if (raw == null || raw.length != rows * (4 + dim)) {
                throw FedRapException.damaged(
                        "a part of C is missing in the store; erase it and sync again");
            }
            float[] widths = LittleEndian.floats(java.util.Arrays.copyOf(raw, 4 * rows));
            System.arraycopy(widths, 0, scales, from, rows);
            System.arraycopy(raw, 4 * rows, steps, from * dim, rows * dim);
        }
        return new SharedMatrix(version, new QuantizedRows(steps, scales, dim));
    }
}
