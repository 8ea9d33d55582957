package io.fedrap.core;

import java.util.Arrays;

/**
 * A device's report: what both servers get, what each gets alone (13).
 *
 * <pre>
 * public          32 bytes of joint part for each server · the corrections
 * leader's share  seed · blind · SHA-256(public) · words: whole numbers, last wire, both proofs
 * helper's share  seed · blind · SHA-256(public)
 * </pre>
 *
 * <p>The helper's words follow from its seed; the leader's are what is left. Joint parts bind both shares
 * and the corrections together, so what the proofs are asked with depends on all that is proven.
 */
final class Report {
    final byte[] id; // all of a device that the helper sees
    final byte[] open; // `public`
    final byte[] leader;
    final byte[] helper;

    /**
     * The report of these numbers; all that is random in it follows from 32 secret bytes. A row that finds
     * no slot is left out, the shortest of those that are in each other's way.
     */
    Report(Terms terms, SmallNumbers numbers, byte[] secret) {
        id = Xof.kdf("report", secret);
        byte[][] seeds = {Xof.kdf("leader seed", secret), Xof.kdf("helper seed", secret)};
        byte[][] blinds = {Xof.kdf("leader blind", secret), Xof.kdf("helper blind", secret)};
        int[] positions = new int[terms.slots];
        long[] rows = filled(terms, numbers, Xof.kdf("empty slots", secret), positions);
        long squares = SmallNumbers.squares(rows) + SmallNumbers.squares(numbers.whole);
        long[] extra = Arrays.copyOf(terms.slack(squares), terms.digits + 1);
        extra[terms.digits] = numbers.fits;
        long[] everything = Arrays.copyOf(inField(rows), terms.numbers);
        System.arraycopy(inField(numbers.whole), 0, everything, rows.length, terms.whole);
        byte[] core =
                terms.slots == 0
                        ? new byte[0]
                        : PointKeys.corrections(terms, id, seeds, positions, everything);
        long[] given = Arrays.copyOf(inField(numbers.whole), terms.whole + extra.length);
        System.arraycopy(inField(extra), 0, given, terms.whole, extra.length);
        byte[] mine = Xof.words(without(given, "helper words", seeds[1], terms.round));
        byte[] leads = part(terms, 0, blinds[0], core, Bytes.join(seeds[0], mine));
        byte[] helps = part(terms, 1, blinds[1], core, seeds[1]);
        byte[] joint = Xof.kdf("joint", terms.round, id, leads, helps);
        long[] proofs =
                RangeProof.of(terms, everything, inField(extra), joint, Xof.kdf("prove", secret));
        open = Bytes.join(leads, helps, core);
        byte[] digest = Bytes.sha256(open);
        byte[] left = Xof.words(without(proofs, "helper proofs", seeds[1], terms.round));
        leader = Bytes.join(seeds[0], blinds[0], digest, mine, left);
        helper = Bytes.join(seeds[1], blinds[1], digest);
    }

    /** A row for every slot, and its position into {@code positions}. */
    private static long[] filled(Terms terms, SmallNumbers numbers, byte[] key, int[] positions) {
        if (terms.slots == 0) { // an answer has no rows
            return new long[0];
        }
        long[] drawn = Xof.longs(Xof.stream(key, 8 * terms.slots)); // 64 bits: even to 2^-50
        for (int slot = 0; slot < positions.length; slot++) {
            positions[slot] = (int) Long.remainderUnsigned(drawn[slot], terms.size);
        }
        int width = terms.width;
        TopN order = new TopN(numbers.rows.length);
        for (int i = 0; i < numbers.rows.length; i++) {
            order.offer(i, SmallNumbers.squares(Arrays.copyOfRange(numbers.values, i * width, (i + 1) * width)));
        }
        int[] longest = order.rows();
        int[] rows = new int[longest.length];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = numbers.rows[longest[i]];
        }
        int[][][] places = terms.places(rows);
        int[] given = terms.assigned(places, rows.length);
        long[] out = new long[terms.slots * width];
        for (int i = 0; i < given.length; i++) {
            int slot = given[i];
            if (slot >= 0) {
                positions[slot] = places[slot / terms.tableSlots][1][i];
                System.arraycopy(numbers.values, longest[i] * width, out, slot * width, width);
            }
        }
        return out;
    }

    private static long[] inField(long[] signed) {
        long[] out = new long[signed.length];
        for (int i = 0; i < out.length; i++) {
            out[i] = Xof.field(signed[i]);
        }
        return out;
    }

    /** What is left for the leader of these numbers. */
    private long[] without(long[] numbers, String label, byte[] seed, byte[] round) {
        long[] theirs = Xof.numbers(Xof.kdf(label, seed, round, id), numbers.length);
        for (int i = 0; i < theirs.length; i++) {
            theirs[i] = Xof.sub(numbers[i], theirs[i]);
        }
        return theirs;
    }

    private byte[] part(Terms terms, int server, byte[] blind, byte[] core, byte[] given) {
        byte[] message =
                Bytes.join(
                        Bytes.ascii("fedrap/2 part"), new byte[] {(byte) server}, terms.round, id,
                        Bytes.sha256(core), Bytes.sha256(given));
        return Hkdf.hmac(blind, message);
    }
}
