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

    byte[] encode() {
        Map<String, Object> map = Fields.start("offer-request");
        map.put("release", release);
        map.put("wait", waitSeconds);
        return MsgPack.encode(map);
    }
}
