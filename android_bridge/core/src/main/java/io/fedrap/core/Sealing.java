package io.fedrap.core;

import java.nio.charset.StandardCharsets;

/** An update, sealed: everything outside the ciphertext is bound into it (clauses 4.1 and 4.2). */
final class Sealing {
    private static final byte[] LABEL = "fedrap/1 update".getBytes(StandardCharsets.US_ASCII);

    private Sealing() {}

    /**
     * The bytes of the update that only the holder of the offer's sealing key can read.
     *
     * @throws FedRapException MALFORMED_MESSAGE: that key is no point of P-256.
     */
    static byte[] seal(Offer offer, byte[] device, byte[] plaintext) {
        byte[] plan = Bytes.sha256(offer.plan);
        byte[] info =
                context(
                        offer.task, offer.round, offer.step, offer.model, plan, device, offer.sealId);
        return Requests.update(offer, plan, device, Hpke.seal(offer.sealKey, info, plaintext));
    }

    /** {@code info}: each field with its length, so that no two contexts are equal. */
    static byte[] context(
            byte[] task, byte[] round, long step, byte[] model, byte[] plan, byte[] device, byte[] key) {
        byte[] out = LABEL;
        for (byte[] field :
                new byte[][] {task, round, Bytes.bigEndian(step, 4), model, plan, device, key}) {
            out = Bytes.join(out, Bytes.bigEndian(field.length, 2), field);
        }
        return out;
    }
}
