package io.fedrap.core;

import java.util.Map;

/** Coordinator to device: who it is from now on, in which task, and the proof of it. */
final class Enrolled {
    final byte[] device;
    final byte[] task;
    final byte[] certificate; // empty: this coordinator issues none
    final byte[] authority; // who signs certificates

    Enrolled(byte[] device, byte[] task, byte[] certificate, byte[] authority) {
        this.device = device;
        this.task = task;
        this.certificate = certificate;
        this.authority = authority;
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Enrolled decode(byte[] raw) {
        Fields fields = Fields.ofMessage(raw, Fields.MAX_BYTES, "enrolled");
        return new Enrolled(
                fields.id16("device"),
                fields.id16("task"),
                fields.bytes("certificate", 0, 1024, new byte[0]),
                fields.bytes("authority", 0, 65, new byte[0]));
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("enrolled");
        map.put("device", device);
        map.put("task", task);
        map.put("certificate", certificate);
        map.put("authority", authority);
        return MsgPack.encode(map);
    }
}
