package io.fedrap.core;

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
    final byte[] entry; // of the result
    final SequenceBody sequence; // null: there is no sequence part
    final byte[] trend; // f32 little-endian scale, then m i8; empty: there is none

    private Delta(Fields fields) {
        task = fields.id16("task");
        since = fields.count("since");
        version = fields.count("version");
        step = fields.count("step");
        size = fields.count("size");
        dim = (int) fields.integer("dim", 1, 512);
        catalogue = fields.count("catalogue");
        scoring = Scoring.from(fields.inner("scoring"));
        model = fields.digest("model");
        rows = fields.bytes("rows");
        scales = fields.bytes("scales");
        bitmap = fields.bytes("bitmap");
        values = fields.bytes("values");
        withheld = fields.bytes("withheld", 0, Integer.MAX_VALUE, new byte[0]);
        entry = fields.bytes("entry", 0, Authority.ENTRY_BYTES, new byte[0]);
        sequence = SequenceBody.in(fields);
        trend = fields.bytes("trend", 0, Integer.MAX_VALUE, new byte[0]);
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Delta decode(byte[] raw, int maxBytes) {
        return from(Fields.ofMessage(raw, maxBytes, "delta"));
    }

    static Delta from(Fields fields) {
        return new Delta(fields);
    }
}
