package io.fedrap.core;

/** Inside a signed certificate: this key is that device's, until then. */
final class Certificate {
    final byte[] task;
    final byte[] device;
    final byte[] publicKey;
    final String level; // of the attestation
    final double issuedAt; // seconds since 1970
    final double expiresAt;

    private Certificate(Fields fields) {
        task = fields.id16("task");
        device = fields.id16("device");
        publicKey = fields.point("public_key");
        level = fields.text("level", 1, 40);
        issuedAt = fields.number("issued_at", 0, 1e12);
        expiresAt = fields.number("expires_at", 0, 1e12);
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Certificate decode(byte[] raw) {
        return new Certificate(Fields.ofMessage(raw, Fields.MAX_BYTES, "certificate"));
    }
}
