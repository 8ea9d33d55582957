package io.fedrap.core;

import java.util.Map;

/** Coordinator to device: what makes one version of C out of an earlier one. Rows are absolute. */
final class Delta {
    final byte[] task;
    final long since;
    final long version;
    final long step;
    final long size; // m
    final int dim; // k
    final long catalogue; // version of the catalogue that the size was taken from
    final Scoring scoring;
    final byte[] model; // hash of the result
    final byte[] rows; // u32 little-endian, ascending
    final byte[] scales; // f32 little-endian, one per row
    final byte[] bitmap; // k bits per row: which entries are not 0
    final byte[] values; // i8, those entries
    final byte[] withheld; // of the result, as in a release

    Delta(
            byte[] task,
            long since,
            long version,
            long step,
            long size,
            int dim,
            long catalogue,
            Scoring scoring,
            byte[] model,
            byte[] rows,
            byte[] scales,
            byte[] bitmap,
            byte[] values,
            byte[] withheld) {
        this.task = task;
        this.since = since;
        this.version = version;
        this.step = step;
        this.size = size;
        this.dim = dim;
        this.catalogue = catalogue;
        this.scoring = scoring;
        this.model = model;
        this.rows = rows;
        this.scales = scales;
        this.bitmap = bitmap;
        this.values = values;
        this.withheld = withheld;
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Delta decode(byte[] raw, int maxBytes) {
        return from(Fields.ofMessage(raw, maxBytes, "delta"));
    }

    static Delta from(Fields fields) {
        return new Delta(
                fields.id16("task"),
                fields.count("since"),
                fields.count("version"),
                fields.count("step"),
                fields.count("size"),
                (int) fields.integer("dim", 1, 512),
                fields.count("catalogue"),
                Scoring.from(fields.inner("scoring")),
                fields.digest("model"),
                fields.bytes("rows"),
                fields.bytes("scales"),
                fields.bytes("bitmap"),
                fields.bytes("values"),
                fields.bytes("withheld", 0, Integer.MAX_VALUE, new byte[0]));
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("delta");
        map.put("task", task);
        map.put("since", since);
        map.put("version", version);
        map.put("step", step);
        map.put("size", size);
        map.put("dim", dim);
        map.put("catalogue", catalogue);
        map.put("scoring", scoring.toMap());
        map.put("model", model);
        map.put("rows", rows);
        map.put("scales", scales);
        map.put("bitmap", bitmap);
        map.put("values", values);
        map.put("withheld", withheld);
        return MsgPack.encode(map);
    }
}
