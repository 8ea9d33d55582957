package io.fedrap.core;

/**
 * Coordinator to device: one version of C and how to recommend with it; whole, or what makes it out of an
 * earlier one. The rows of such a delta are absolute.
 */
final class ReleaseMessage {
    private static final byte[] NONE = new byte[0];

    final byte[] task;
    final long since; // the version that a delta is for; -1: whole
    final long version;
    final long step;
    final long size; // m, as it states; nothing was made of it yet
    final int dim; // k
    final long catalogue; // version of the catalogue that has these rows
    final Scoring scoring;
    final double clip; // of the next round, where it adapts; a delta does not say
    final byte[] model; // hash of all numbers of the result
    final byte[] rows; // of a delta: u32 little-endian, ascending
    final byte[] scales; // f32 little-endian, one per row
    final byte[] bitmap; // k bits per row: which entries are not 0
    final byte[] values; // i8, those entries
    final byte[] withheld; // a bit per row, lowest first: not to be recommended; empty: none
    final byte[] entry; // of the log: a signature and a ReleaseEntry
    final SequenceBody sequence; // null: there is no sequence part
    final byte[] trend; // f32 little-endian scale, then m i8; empty: there is none

    private ReleaseMessage(Fields fields) {
        boolean whole = fields.text("type", 1, 40).equals("release");
        task = fields.id16("task");
        since = whole ? -1 : fields.count("since");
        version = fields.count("version");
        step = fields.count("step");
        size = fields.count("size");
        dim = (int) fields.integer("dim", 1, 512);
        catalogue = fields.count("catalogue");
        scoring = Scoring.from(fields.inner("scoring"));
        clip = whole ? fields.number("clip", 0, 1e6, 0) : 0;
        model = fields.digest("model");
        rows = whole ? NONE : fields.bytes("rows");
        scales = fields.bytes("scales");
        bitmap = fields.bytes("bitmap");
        values = fields.bytes("values");
        withheld = fields.bytes("withheld", 0, Integer.MAX_VALUE, NONE);
        entry = fields.bytes("entry", 0, Authority.ENTRY_BYTES, NONE);
        sequence = SequenceBody.in(fields);
        trend = fields.bytes("trend", 0, Integer.MAX_VALUE, NONE);
    }

    /** Throws as {@link Fields#ofMessage}. */
    static ReleaseMessage decode(byte[] raw, int maxBytes) {
        return new ReleaseMessage(Fields.ofMessage(raw, maxBytes, "release", "delta"));
    }

    boolean isDelta() {
        return since >= 0;
    }
}
