package io.fedrap.core;

/** A release in the log that the authority signs: all that a device uses of it, or its digest. */
final class ReleaseEntry {
    final byte[] task;
    final long version;
    final long step;
    final long size; // m
    final int dim; // k
    final long catalogue;
    final Scoring scoring;
    final double clip;
    final byte[] model;
    final byte[] withheld; // SHA-256 of the bytes that say which rows are withheld
    final byte[] before; // digest of the entry before it; zeros for the first
    final byte[] staged; // the roll-out that it is staged by; empty: it is for every device

    private ReleaseEntry(Fields fields) {
        task = fields.id16("task");
        version = fields.count("version");
        step = fields.count("step");
        size = fields.count("size");
        dim = (int) fields.integer("dim", 1, 512);
        catalogue = fields.count("catalogue");
        scoring = Scoring.from(fields.inner("scoring"));
        clip = fields.number("clip", 0, 1e6, 0);
        model = fields.digest("model");
        withheld = fields.digest("withheld");
        before = fields.digest("before");
        staged = fields.bytes("staged", 16, 16, new byte[0]);
    }

    /** Throws as {@link Fields#ofMessage}. */
    static ReleaseEntry decode(byte[] raw) {
        return new ReleaseEntry(Fields.ofMessage(raw, 8192, "release-entry"));
    }
}
