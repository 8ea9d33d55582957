package io.fedrap.core;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * All that fixes the shape of a round's reports: the round, its plan and how many items; and where an item
 * may lie in a report.
 *
 * <p>A report has three tables of B = ceil(1.28·H/3) slots. Item j may lie in slot π_t(j) mod B of table t,
 * at position π_t(j) div B, with π_t a permutation of the items that the round keys. A device puts each of
 * its rows into one of its three slots (cuckoo hashing), and rows of zeros at random positions into the
 * others, so that every report has as many slots as every other.
 */
final class Terms {
    static final int TABLES = 3;
    static final int R = 31; // the largest number
    private static final int BASE = 2 * R + 1; // of the digits of the slack
    private static final int ROUNDS = 4; // of the Feistel network (Luby and Rackoff 1988)

    final byte[] round;
    final Privacy rule;
    final int items; // m
    final int rows; // H
    final double gramScale;
    final double longest; // S/Δ = R/peak: the longest update, in steps
    final double step; // Δ
    final int dim; // k of the rows of C
    final int width; // numbers of a row, all parts side by side
    final int whole; // numbers that every device sends all of
    final int tableSlots; // B
    final int slots;
    final int size; // positions in a slot
    final int depth; // levels of the tree over them
    final int numbers; // that the proof is about
    final long limit; // Q, of their squares
    final int digits; // that a slack up to Q takes
    final int calls; // N
    final int wires; // L, without the last wire

    /**
     * Throws MALFORMED_MESSAGE where the plan's split is none.
     *
     * @param items how many rows the release has
     */
    Terms(byte[] round, Plan plan, int items) {
        Fields split = plan.split.only("rows", "peak", "gram_scale", "least");
        SolveMethod method = plan.method();
        SequenceMethod part = method.sequence;
        this.round = round;
        this.rule = plan.privacy;
        this.items = items;
        rows = (int) split.integer("rows", 1, 2000, 100);
        gramScale = split.number("gram_scale", Double.MIN_VALUE, 1e6, 1.0);
        split.integer("least", 2, 1_000_000_000, 2);
        longest = R / split.number("peak", 0.01, 1, 0.2);
        step = rule.clip / longest;
        dim = method.dim;
        int wide = part == null ? 0 : 2 * part.dim + 1; // inputs and outputs
        width = dim + wide + (method.halfDays > 0 ? 1 : 0);
        int kernels = part == null ? 0 : part.kernels.count() * part.dim;
        whole = dim * (dim + 1) / 2 + kernels;
        tableSlots = ceil(128 * rows, 300);
        slots = TABLES * tableSlots;
        size = Math.max(1, ceil(items, tableSlots));
        depth = bits(size - 1);
        numbers = slots * width + whole;
        limit = (long) Math.floor(longest * longest);
        digits = digits(limit);
        calls = calls(numbers, digits);
        wires = ceil(numbers, calls);
    }

    /** Of the answers to a question: so many numbers in [-1, 1], without tables (14.10). */
    Terms(byte[] question, int whole, long limit) {
        this.round = question;
        this.whole = whole;
        this.limit = limit;
        rule = null;
        items = 0;
        rows = 0;
        gramScale = 1;
        longest = R;
        step = 1.0 / R;
        dim = 0;
        width = 0;
        tableSlots = 0;
        slots = 0;
        size = 1;
        depth = 0;
        numbers = whole;
        digits = digits(limit);
        calls = calls(numbers, digits);
        wires = ceil(numbers, calls);
    }

    private static int digits(long limit) {
        int count = 1;
        for (long largest = BASE; largest <= limit; largest *= BASE) {
            count++;
        }
        return count;
    }

    private static int calls(int numbers, int digits) {
        return Math.max(digits + 1, (int) Math.rint(Math.sqrt(numbers / (BASE + 2.0))));
    }

    private static int ceil(int number, int by) {
        return (number + by - 1) / by;
    }

    private static int bits(int number) {
        return 32 - Integer.numberOfLeadingZeros(number);
    }

    /** Slot and position of each item in each table: [table][0 or 1][item]. */
    int[][][] places(int[] rows) {
        Xof blocks = new Xof(Xof.kdf("places", round));
        int[][][] out = new int[TABLES][2][rows.length];
        for (int table = 0; table < TABLES; table++) {
            for (int i = 0; i < rows.length; i++) {
                long image = rows[i];
                do {
                    image = feistel(blocks, table, image);
                } while (image >= items);
                out[table][0][i] = table * tableSlots + (int) (image % tableSlots);
                out[table][1][i] = (int) (image / tableSlots);
            }
        }
        return out;
    }

    /** (l, r) -> (r, l ⊕ AES(r, table, round)), four times. */
    private long feistel(Xof blocks, int table, long value) {
        int half = Math.max(1, (bits(items - 1) + 1) / 2);
        long mask = (1L << half) - 1;
        long left = value >> half;
        long right = value & mask;
        for (int number = 0; number < ROUNDS; number++) {
            long[] plain = {right, table << 8 | number};
            long next = left ^ blocks.encrypt(plain)[0] & mask;
            left = right;
            right = next;
        }
        return left << half | right;
    }

    /**
     * The slot of each row among its three, no two in one; -1 where there is none. Rows that come first are
     * never given up for later ones: a shortest augmenting path moves the others about.
     */
    int[] assigned(int[][][] places, int count) {
        int[] owner = new int[slots];
        int[] placed = new int[count];
        Arrays.fill(owner, -1);
        Arrays.fill(placed, -1);
        for (int row = 0; row < count; row++) {
            Map<Integer, Integer> cameFrom = new HashMap<>(); // slot -> the row that would take it
            ArrayDeque<Integer> waiting = new ArrayDeque<>();
            waiting.add(row);
            int free = -1;
            while (!waiting.isEmpty() && free < 0) {
                int mover = waiting.poll();
                for (int table = 0; table < TABLES && free < 0; table++) {
                    int slot = places[table][0][mover];
                    if (!cameFrom.containsKey(slot)) {
                        cameFrom.put(slot, mover);
                        if (owner[slot] < 0) {
                            free = slot;
                        } else {
                            waiting.add(owner[slot]);
                        }
                    }
                }
            }
            while (free >= 0) { // along the path, back to the row
                int mover = cameFrom.get(free);
                int before = placed[mover];
                owner[free] = mover;
                placed[mover] = free;
                free = before;
            }
        }
        return placed;
    }

    /** Q - squares in base 63, the lowest digit first, each less R. */
    long[] slack(long squares) {
        long[] out = new long[digits];
        long left = limit - squares;
        for (int i = 0; i < digits; i++) {
            out[i] = left % BASE - R;
            left /= BASE;
        }
        return out;
    }
}
