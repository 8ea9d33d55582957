package io.fedrap.core;

import java.util.Map;

/** Coordinator to device: the update is stored. */
final class Accepted {
    final byte[] round;
    final byte[] digest; // SHA-256 of the update's bytes

    Accepted(byte[] round, byte[] digest) {
        this.round = round;
        this.digest = digest;
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Accepted decode(byte[] raw) {
        Fields fields = Fields.ofMessage(raw, Fields.MAX_BYTES, "accepted");
        return new Accepted(
                fields.id16("round"),
                fields.digest("digest"));
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("accepted");
        map.put("round", round);
        map.put("digest", digest);
        return MsgPack.encode(map);
    }
}
