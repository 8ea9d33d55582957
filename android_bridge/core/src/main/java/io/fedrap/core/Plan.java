package io.fedrap.core;

import java.util.Map;

/**
 * One round's instructions. Its SHA-256, over the bytes as sent, binds every update.
 *
 * <p>A plan of the method {@code paper} is read, so that it can be refused with a clear word.
 */
final class Plan {
    static final int MAX_BYTES = 4096;

    final Privacy privacy;
    final long minUpdates; // no release from fewer devices
    final Fields split; // of two servers; null: one
    private final SolveMethod method; // null: of another method
    private final String name; // of the method

    private Plan(Fields f) {
        f.only("method", "privacy", "min_updates", "split");
        Fields nothing = Fields.ofValue(new byte[] {(byte) 0x80}, 1);
        Map<?, ?> fields = f.asMap();
        Fields given = fields.containsKey("method") ? f.inner("method") : nothing;
        name = given == nothing ? "solve" : given.text("name", 0, Integer.MAX_VALUE);
        if (!name.equals("solve") && !name.equals("paper")) {
            throw given.refused("name", "is no method that is known here");
        }
        method = name.equals("solve") ? new SolveMethod(given) : null;
        privacy = new Privacy(fields.containsKey("privacy") ? f.inner("privacy") : nothing);
        split = fields.containsKey("split") ? f.inner("split") : null;
        minUpdates = f.integer("min_updates", 1, 1_000_000_000, 2);
    }

    /**
     * The plan in the bytes of an offer.
     *
     * @throws FedRapException TOO_LARGE, or MALFORMED_MESSAGE for a method or a field that is not
     *     known (PROTOCOL 5.1)
     */
    static Plan decode(byte[] raw) {
        return new Plan(Fields.ofValue(raw, MAX_BYTES));
    }

    /**
     * How to compute this round.
     *
     * @throws FedRapException UNSUPPORTED_METHOD where that is not by `solve`
     */
    SolveMethod method() {
        if (method == null) {
            throw FedRapException.otherMethod("this round is of the method " + name);
        }
        return method;
    }

    /** Whether this library can compute the round. */
    boolean isSolve() {
        return method != null;
    }
}
