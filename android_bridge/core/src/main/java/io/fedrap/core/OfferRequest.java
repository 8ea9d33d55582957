package io.fedrap.core;

import java.util.Map;

/** Device to coordinator: may I take part? */
final class OfferRequest {
    final long release; // the version of C that the device holds
    final double waitSeconds; // for the answer, where there is no place now

    OfferRequest(long release, double waitSeconds) {
        this.release = release;
        this.waitSeconds = waitSeconds;
    }

    /** Throws as {@link Fields#ofMessage}. */
    static OfferRequest decode(byte[] raw) {
        Fields fields = Fields.ofMessage(raw, Fields.MAX_BYTES, "offer-request");
        return new OfferRequest(
                fields.count("release"),
                fields.number("wait", 0, 600, 0));
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("offer-request");
        map.put("release", release);
        map.put("wait", waitSeconds);
        return MsgPack.encode(map);
    }
}
