package io.fedrap.core;

import java.nio.charset.StandardCharsets;

/** An update, sealed: everything outside the ciphertext is bound into it (clauses 4.1 and 4.2). */
final class Sealing {
    private static final byte[] LABEL = "fedrap/1 update".getBytes(StandardCharsets.US_ASCII);

    private Sealing() {}

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
