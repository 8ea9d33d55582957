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

    byte[] encode() {
        Map<String, Object> map = Fields.start("renew");
        map.put("nonce", nonce);
        map.put("attestation_kind", attestationKind);
        map.put("attestation", attestation);
        return MsgPack.encode(map);
    }
}
