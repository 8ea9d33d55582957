package io.fedrap.core;

import java.util.Map;

/** Device to coordinator: a sealed share. Everything outside {@code sealed} is bound into it. */
final class Update {
    final byte[] task;
    final byte[] round;
    final long step;
    final byte[] model;
    final byte[] plan; // SHA-256 of the plan's bytes
    final byte[] device;
    final byte[] sealId;
    final byte[] sealed;

    Update(
            byte[] task,
            byte[] round,
            long step,
            byte[] model,
            byte[] plan,
            byte[] device,
            byte[] sealId,
            byte[] sealed) {
        this.task = task;
        this.round = round;
        this.step = step;
        this.model = model;
        this.plan = plan;
        this.device = device;
        this.sealId = sealId;
        this.sealed = sealed;
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("update");
        map.put("task", task);
        map.put("round", round);
        map.put("step", step);
        map.put("model", model);
        map.put("plan", plan);
        map.put("device", device);
        map.put("seal_id", sealId);
        map.put("sealed", sealed);
        return MsgPack.encode(map);
    }
}
