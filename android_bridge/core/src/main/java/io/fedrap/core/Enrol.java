package io.fedrap.core;

import java.util.Map;

/** Device to coordinator: a token of the app's backend and the device's public key. */
final class Enrol {
    final String token;
    final byte[] publicKey; // an uncompressed point of P-256
    final String attestationKind;
    final byte[] attestation;

    Enrol(String token, byte[] publicKey, String attestationKind, byte[] attestation) {
        this.token = token;
        this.publicKey = publicKey;
        this.attestationKind = attestationKind;
        this.attestation = attestation;
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("enrol");
        map.put("token", token);
        map.put("public_key", publicKey);
        map.put("attestation_kind", attestationKind);
        map.put("attestation", attestation);
        return MsgPack.encode(map);
    }
}
