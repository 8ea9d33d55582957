package io.fedrap.core;

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
    final byte[] entry; // of the log: a signature and a ReleaseEntry
    final SequenceBody sequence; // null: there is no sequence part
    final byte[] trend; // f32 little-endian scale, then m i8; empty: there is none

    private Release(Fields fields) {
        task = fields.id16("task");
        version = fields.count("version");
        step = fields.count("step");
        size = fields.count("size");
        dim = (int) fields.integer("dim", 1, 512);
        catalogue = fields.count("catalogue");
        scoring = Scoring.from(fields.inner("scoring"));
        clip = fields.number("clip", 0, 1e6, 0);
        model = fields.digest("model");
        scales = fields.bytes("scales");
        bitmap = fields.bytes("bitmap");
        values = fields.bytes("values");
        withheld = fields.bytes("withheld", 0, Integer.MAX_VALUE, new byte[0]);
        entry = fields.bytes("entry", 0, Authority.ENTRY_BYTES, new byte[0]);
        sequence = SequenceBody.in(fields);
        trend = fields.bytes("trend", 0, Integer.MAX_VALUE, new byte[0]);
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Release decode(byte[] raw, int maxBytes) {
        return from(Fields.ofMessage(raw, maxBytes, "release"));
    }

    static Release from(Fields fields) {
        return new Release(fields);
    }
}
