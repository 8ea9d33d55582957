package io.fedrap.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The bytes of what a device says in a few words; PROTOCOL 1 has a table for each. */
final class Requests {
    private Requests() {}

    /** A token of the app's backend and the device's public key. */
    static byte[] enrol(String token, byte[] publicKey, String kind, byte[] attestation) {
        Map<String, Object> map = Fields.start("enrol");
        map.put("token", token);
        map.put("public_key", publicKey);
        return attested(map, kind, attestation);
    }

    /** A new certificate, please; the attestation is made for the nonce. */
    static byte[] renew(long nonce, String kind, byte[] attestation) {
        Map<String, Object> map = Fields.start("renew");
        map.put("nonce", nonce);
        return attested(map, kind, attestation);
    }

    private static byte[] attested(Map<String, Object> map, String kind, byte[] attestation) {
        map.put("attestation_kind", kind);
        map.put("attestation", attestation);
        return MsgPack.encode(map);
    }

    /** May I take part? The release is what the device holds; it waits so many seconds. */
    static byte[] offer(long release, double wait) {
        Map<String, Object> map = Fields.start("offer-request");
        map.put("release", release);
        map.put("wait", wait);
        return MsgPack.encode(map);
    }

    /** This device is no more; forget its key. */
    static byte[] forget() {
        return MsgPack.encode(Fields.start("forget"));
    }

    /** A sealed share; everything outside {@code sealed} is bound into it. */
    static byte[] update(Offer offer, byte[] planDigest, byte[] device, byte[] sealed) {
        Map<String, Object> map = Fields.start("update");
        map.put("task", offer.task);
        map.put("round", offer.round);
        map.put("step", offer.step);
        map.put("model", offer.model);
        map.put("plan", planDigest);
        map.put("device", device);
        map.put("seal_id", offer.sealId);
        map.put("sealed", sealed);
        return MsgPack.encode(map);
    }

    /**
     * Inside an update, before it is sealed: rows, the folded packed Gram matrix, and the other parts of
     * the plan with their quantised rows.
     */
    static byte[] share(
            int[] rows,
            QuantizedRows values,
            QuantizedRows gram,
            int fits,
            RowPart[] parts,
            QuantizedRows[] others) {
        Map<String, Object> map = Fields.start("share");
        map.put("rows", Bytes.bytes(rows));
        map.put("scales", Bytes.bytes(values.scales));
        map.put("values", values.values);
        map.put("triangle_scales", Bytes.bytes(gram.scales));
        map.put("triangle", gram.values);
        map.put("fits", fits);
        List<Object> more = new ArrayList<>();
        for (int i = 0; i < parts.length; i++) {
            Map<String, Object> part = new LinkedHashMap<>();
            part.put("name", parts[i].name);
            part.put("rows", parts[i].rows == null ? new byte[0] : Bytes.bytes(parts[i].rows));
            part.put("scales", Bytes.bytes(others[i].scales));
            part.put("values", others[i].values);
            more.add(part);
        }
        if (!more.isEmpty()) { // a share of a plan without them has no such field
            map.put("parts", more);
        }
        return MsgPack.encode(map);
    }
}
