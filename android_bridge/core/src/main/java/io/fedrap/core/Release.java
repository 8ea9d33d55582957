package io.fedrap.core;

import java.util.Map;

/** Coordinator to device: one version of C, and how to recommend with it. */
final class Release {
    final byte[] task;
    final long version;
    final long step;
    final long size; // m
    final int dim; // k
    final long catalogue; // version of the catalogue that the size was taken from
    final Scoring scoring;
    final double clip; // of the next round, where it adapts
    final byte[] model; // hash of C
    final byte[] scales; // f32 little-endian, m
    final byte[] bitmap; // m·k bits: which entries are not 0
    final byte[] values; // i8, those entries
    final byte[] withheld; // a bit per row, lowest first: not to be recommended; empty: none

    Release(
            byte[] task,
            long version,
            long step,
            long size,
            int dim,
            long catalogue,
            Scoring scoring,
            double clip,
            byte[] model,
            byte[] scales,
            byte[] bitmap,
            byte[] values,
            byte[] withheld) {
        this.task = task;
        this.version = version;
        this.step = step;
        this.size = size;
        this.dim = dim;
        this.catalogue = catalogue;
        this.scoring = scoring;
        this.clip = clip;
        this.model = model;
        this.scales = scales;
        this.bitmap = bitmap;
        this.values = values;
        this.withheld = withheld;
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Release decode(byte[] raw, int maxBytes) {
        return from(Fields.ofMessage(raw, maxBytes, "release"));
    }

    static Release from(Fields fields) {
        return new Release(
                fields.id16("task"),
                fields.count("version"),
                fields.count("step"),
                fields.count("size"),
                (int) fields.integer("dim", 1, 512),
                fields.count("catalogue"),
                Scoring.from(fields.inner("scoring")),
                fields.number("clip", 0, 1e6, 0),
                fields.digest("model"),
                fields.bytes("scales"),
                fields.bytes("bitmap"),
                fields.bytes("values"),
                fields.bytes("withheld", 0, Integer.MAX_VALUE, new byte[0]));
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("release");
        map.put("task", task);
        map.put("version", version);
        map.put("step", step);
        map.put("size", size);
        map.put("dim", dim);
        map.put("catalogue", catalogue);
        map.put("scoring", scoring.toMap());
        map.put("clip", clip);
        map.put("model", model);
        map.put("scales", scales);
        map.put("bitmap", bitmap);
        map.put("values", values);
        map.put("withheld", withheld);
        return MsgPack.encode(map);
    }
}
