package io.fedrap.core;

import java.util.Map;

/** Device to coordinator: a new certificate, please. The attestation is made for the nonce. */
final class Renew {
    final long nonce;
    final String attestationKind;
    final byte[] attestation;

    Renew(long nonce, String attestationKind, byte[] attestation) {
        this.nonce = nonce;
        this.attestationKind = attestationKind;
        this.attestation = attestation;
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Renew decode(byte[] raw) {
        Fields fields = Fields.ofMessage(raw, Fields.MAX_BYTES, "renew");
        return new Renew(
                fields.integer("nonce", 0, Long.MAX_VALUE, 0),
                fields.text("attestation_kind", 1, 40, "none"),
                fields.bytes("attestation", 0, 16384, new byte[0]));
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("renew");
        map.put("nonce", nonce);
        map.put("attestation_kind", attestationKind);
        map.put("attestation", attestation);
        return MsgPack.encode(map);
    }
}
