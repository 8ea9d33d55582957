package io.fedrap.core;

import java.util.Map;

/** Coordinator to device: a place in a round. */
final class Offer {
    final byte[] task;
    final byte[] round;
    final long step;
    final byte[] plan; // a Plan, as encoded bytes
    final long release;
    final byte[] model; // hash of that release's C
    final byte[] sealKey;
    final byte[] sealId;
    final double closesIn; // seconds

    Offer(
            byte[] task,
            byte[] round,
            long step,
            byte[] plan,
            long release,
            byte[] model,
            byte[] sealKey,
            byte[] sealId,
            double closesIn) {
        this.task = task;
        this.round = round;
        this.step = step;
        this.plan = plan;
        this.release = release;
        this.model = model;
        this.sealKey = sealKey;
        this.sealId = sealId;
        this.closesIn = closesIn;
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Offer decode(byte[] raw) {
        Fields fields = Fields.ofMessage(raw, Fields.MAX_BYTES, "offer");
        return new Offer(
                fields.id16("task"),
                fields.id16("round"),
                fields.count("step"),
                fields.bytes("plan", 0, Plan.MAX_BYTES),
                fields.count("release"),
                fields.digest("model"),
                fields.point("seal_key"),
                fields.bytes("seal_id", 8, 8),
                fields.number("closes_in", 0, 1e9));
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("offer");
        map.put("task", task);
        map.put("round", round);
        map.put("step", step);
        map.put("plan", plan);
        map.put("release", release);
        map.put("model", model);
        map.put("seal_key", sealKey);
        map.put("seal_id", sealId);
        map.put("closes_in", closesIn);
        return MsgPack.encode(map);
    }
}
