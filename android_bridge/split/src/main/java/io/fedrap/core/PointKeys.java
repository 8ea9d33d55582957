package io.fedrap.core;

/**
 * One row at one secret position of a slot, as corrections that both servers get and a seed for each: a
 * distributed point function (Boyle, Gilboa and Ishai 2016, section 3.2.1; tags after de Castro and
 * Polychroniadou 2022).
 *
 * <pre>
 * children of a seed s with control bit t:  s_L = block(s, 0), s_R = block(s, 1)
 *     control bits: the lowest bit of each; both seeds without it
 *     where t = 1: s_L and s_R ⊕ seed correction, control bits ⊕ bit corrections
 * at a leaf: words = convert(s) + t·payload correction, (-1)^b of which is b's share
 *            tag   = convert'(s) ⊕ t·tag correction
 * </pre>
 */
final class PointKeys {
    private static final int TAG = 4; // longs of a tag

    private PointKeys() {}

    /** The roots of all slots, from one server's seed, without their lowest bits. */
    private static long[] roots(byte[] seed, int slots) {
        long[] roots = Xof.longs(Xof.stream(Xof.kdf("roots", seed), 16 * slots));
        for (int slot = 0; slot < slots; slot++) {
            roots[2 * slot] &= ~1L;
        }
        return roots;
    }

    /**
     * The bytes of the corrections that put each slot's row, in [0, p), at its position: seed corrections,
     * bits, words, tags.
     */
    static byte[] corrections(Terms terms, byte[] report, byte[][] seeds, int[] positions, long[] rows) {
        int slots = terms.slots;
        int depth = terms.depth;
        Xof extend = new Xof(Xof.kdf("extend", terms.round, report));
        long[][] here = {roots(seeds[0], slots), roots(seeds[1], slots)};
        boolean[][] control = new boolean[2][slots];
        java.util.Arrays.fill(control[1], true);
        long[] corrections = new long[2 * slots * depth];
        byte[] bits = new byte[(2 * slots * depth + 7) / 8];
        for (int level = 0; level < depth; level++) {
            long[][] grown = {extend.expand(here[0], 2), extend.expand(here[1], 2)};
            for (int slot = 0; slot < slots; slot++) {
                int turn = positions[slot] >> depth - 1 - level & 1; // 0: left
                int node = slot * depth + level;
                int lost = 4 * slot + 2 * (1 - turn);
                corrections[2 * node] = (grown[0][lost] ^ grown[1][lost]) & ~1L;
                corrections[2 * node + 1] = grown[0][lost + 1] ^ grown[1][lost + 1];
                boolean kept = false; // the bit correction of the child that is kept
                for (int side = 0; side < 2; side++) {
                    int child = 4 * slot + 2 * side;
                    long differ = (grown[0][child] ^ grown[1][child]) & 1;
                    boolean set = (differ == 1) != (side == turn); // of the kept child they differ
                    int bit = 2 * node + side;
                    bits[bit / 8] |= set ? 1 << bit % 8 : 0;
                    kept = side == turn ? set : kept;
                }
                for (int server = 0; server < 2; server++) {
                    int child = 4 * slot + 2 * turn;
                    boolean corrected = control[server][slot];
                    boolean bit = (grown[server][child] & 1) == 1;
                    here[server][2 * slot] =
                            grown[server][child] & ~1L ^ (corrected ? corrections[2 * node] : 0);
                    here[server][2 * slot + 1] =
                            grown[server][child + 1] ^ (corrected ? corrections[2 * node + 1] : 0);
                    control[server][slot] = bit != (corrected && kept);
                }
            }
        }
        return Bytes.join(raw(corrections), bits, leaves(terms, report, here, control[1], rows));
    }

    /** Words and tags of the corrections. */
    private static byte[] leaves(
            Terms terms, byte[] report, long[][] here, boolean[] negative, long[] rows) {
        Xof convert = new Xof(Xof.kdf("convert", terms.round, report));
        int blocks = (terms.width + 3) / 4 + TAG / 2;
        long[] words = new long[terms.slots * terms.width];
        long[] tags = new long[terms.slots * TAG];
        long[][] leaf = {convert.expand(here[0], blocks), convert.expand(here[1], blocks)};
        for (int slot = 0; slot < terms.slots; slot++) {
            int first = 2 * blocks * slot;
            for (int i = 0; i < terms.width; i++) {
                int at = slot * terms.width + i;
                // β - convert(s_0) + convert(s_1)
                long made = Xof.sub(rows[at], word(leaf[0], first, i)) + word(leaf[1], first, i);
                words[at] = (negative[slot] ? 2 * Xof.P - made : made) % Xof.P;
            }
            for (int i = 0; i < TAG; i++) {
                int at = first + 2 * blocks - TAG + i;
                tags[slot * TAG + i] = leaf[0][at] ^ leaf[1][at];
            }
        }
        return Bytes.join(Xof.words(words), raw(tags));
    }

    /** Word i & p of a leaf, where p counts as 0: skipping it as streams do would move the others. */
    private static long word(long[] leaf, int first, int i) {
        long word = leaf[first + i / 2] >>> 32 * (i % 2) & Xof.P;
        return word == Xof.P ? 0 : word;
    }

    private static byte[] raw(long[] numbers) {
        byte[] out = new byte[8 * numbers.length];
        Bytes.wrap(out).asLongBuffer().put(numbers);
        return out;
    }
}
