package io.fedrap.core;

/** Inside {@code signed}: a slot in a round. */
final class Offer {
    final byte[] task;
    final byte[] round;
    final long step;
    final byte[] plan; // a Plan, as encoded bytes
    final long release;
    final byte[] model; // hash of that release's C
    final byte[] sealKey;
    final byte[] sealId;
    final Long beside; // the release that a device must hold, where `release` is its successor; or null
    final Fields helper; // the second server of a plan with split; null: there is none

    private Offer(Fields fields) {
        task = fields.id16("task");
        round = fields.id16("round");
        step = fields.count("step");
        plan = fields.bytes("plan", 0, Plan.MAX_BYTES);
        release = fields.count("release");
        model = fields.digest("model");
        sealKey = fields.point("seal_key");
        sealId = fields.bytes("seal_id", 8, 8);
        beside = fields.has("beside") ? (Long) fields.count("beside") : null;
        helper = fields.asMap().containsKey("helper") ? fields.inner("helper") : null;
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Offer decode(byte[] raw) {
        return new Offer(Fields.ofMessage(raw, Fields.MAX_BYTES, "offer"));
    }
}
