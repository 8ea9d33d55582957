package io.fedrap.core;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;

/**
 * Inside {@code signed}: what devices are asked of the quality of their lists, and what it costs them
 * (clauses 14).
 *
 * <p>Without variants it is about the gains that devices had under these releases; with them about what
 * each of these scorings would have given under the one release.
 */
final class Question {
    static final List<String> METRICS = Arrays.asList("hr10", "ndcg10", "ndcg", "mrr");
    private static final int MOST_RELEASES = 8;
    private static final int MOST_VARIANTS = 16;
    private static final double LATEST = 0.9; // of its time, at which the last devices answer
    private static final double ROUGH = 0.25; // p: squares need not be exact, and weigh little

    final byte[] task;
    final byte[] question;
    final String metric;
    final List<Long> releases = new ArrayList<>();
    final List<Scoring> variants = new ArrayList<>(); // the one in force first; empty: none
    final long light; // interactions of light users, who are summed apart; 0: one group
    final double noise; // z, standard deviation of the sum's noise / S
    final double delta;
    final long least; // no result from fewer answers
    final long most; // answers that are taken
    final long budget; // questions that a device answers at most in a window
    final double askedAt;
    final double endsAt;
    final byte[] sealKey;
    final byte[] sealId;

    private Question(Fields f) {
        task = f.id16("task");
        question = f.id16("question");
        metric = f.text("metric", 1, 40);
        if (!METRICS.contains(metric)) {
            throw f.refused("metric", "is none that is known here");
        }
        for (Object one : f.list("releases")) {
            long version = one instanceof Long ? (Long) one : -1;
            if (version < 0 || version > 1L << 31 || releases.size() == MOST_RELEASES) {
                throw f.refused("releases", "is not a list of up to 8 versions");
            }
            releases.add(version);
        }
        if (f.asMap().containsKey("variants")) {
            for (Fields one : f.inners("variants", MOST_VARIANTS)) {
                variants.add(Scoring.from(one));
            }
        }
        light = f.integer("light", 0, 1_000_000, 0);
        noise = f.number("noise", 0, 1e4);
        delta = f.number("delta", Double.MIN_VALUE, Math.nextDown(1.0));
        least = f.integer("least", 1, 1_000_000_000);
        most = f.integer("most", 1, 1_000_000_000);
        budget = f.integer("budget", 1, 1_000_000_000);
        askedAt = f.number("asked_at", 0, 1e12);
        endsAt = f.number("ends_at", 0, 1e12);
        sealKey = f.point("seal_key");
        sealId = f.bytes("seal_id", 8, 8);
        if (releases.isEmpty()) {
            throw f.refused("releases", "is empty");
        }
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Question decode(byte[] raw) {
        return new Question(Fields.ofMessage(raw, Fields.MAX_BYTES, "question"));
    }

    /** Can this version lay out an answer at all? Candidates are two or more, of one release. */
    boolean isAnswerable() {
        boolean named = new HashSet<>(releases).size() == releases.size();
        return named && (variants.isEmpty() || variants.size() > 1 && releases.size() == 1);
    }

    /** What a device with these gains says, for each block those of its lines or null; float32. */
    byte[] answer(double[][] gains, int recorded) {
        int groups = light > 0 ? 2 : 1;
        int compared = variants.isEmpty() ? 1 : variants.size() - 1;
        return vector(groups, compared, gains, light > 0 && recorded > light ? 1 : 0);
    }

    /** p, g, p g^2, then d = g_i - g and p d^2 of each line compared; zeros elsewhere (14.3). */
    static byte[] vector(int groups, int compared, double[][] gains, int group) {
        int width = 3 + 2 * compared;
        float[] out = new float[gains.length * groups * width];
        for (int block = 0; block < gains.length; block++) {
            if (gains[block] != null) {
                int at = (block * groups + group) * width;
                double first = bounded(gains[block][0]);
                out[at++] = (float) ROUGH;
                out[at++] = (float) first;
                out[at++] = (float) (ROUGH * first * first);
                for (int line = 1; line <= compared; line++) {
                    double more = bounded(gains[block][line]) - first;
                    out[at++] = (float) more;
                    out[at++] = (float) (ROUGH * (more * more));
                }
            }
        }
        return Bytes.bytes(out);
    }

    private static double bounded(double gain) {
        return Math.max(0.0, Math.min(1.0, gain));
    }

    /** When the device of this key answers, in seconds since 1970: spread evenly, told to nobody. */
    double moment(byte[] secret) {
        byte[] info = Bytes.join(Bytes.ascii("fedrap/1 sampling question "), question);
        byte[] derived = Hkdf.expand(Hkdf.extract(new byte[0], secret), info, 44);
        int[] state = Bytes.integers(Bytes.join(Bytes.ascii("expand 32-byte k"), derived));
        int[] start = new int[16]; // key and nonce, with the counter 0 between them
        System.arraycopy(state, 0, start, 0, 12);
        System.arraycopy(state, 12, start, 13, 3);
        double x = RoundShare.fractions(Arrays.copyOf(Bytes.bytes(chacha(start)), 8))[0];
        return askedAt + LATEST * x * (endsAt - askedAt);
    }

    /** A block of ChaCha20 (RFC 8439, 2.3); Android has it from API 28 on. */
    private static int[] chacha(int[] start) {
        int[] x = start.clone();
        for (int round = 0; round < 20; round++) {
            int turn = round % 2; // columns, then diagonals
            for (int i = 0; i < 4; i++) {
                int b = 4 + (i + turn) % 4;
                int c = 8 + (i + 2 * turn) % 4;
                int d = 12 + (i + 3 * turn) % 4;
                mix(x, i, b, d, 16);
                mix(x, c, d, b, 12);
                mix(x, i, b, d, 8);
                mix(x, c, d, b, 7);
            }
        }
        for (int i = 0; i < x.length; i++) {
            x[i] += start[i];
        }
        return x;
    }

    private static void mix(int[] x, int sum, int added, int turned, int by) {
        x[sum] += x[added];
        x[turned] = Integer.rotateLeft(x[turned] ^ x[sum], by);
    }
}
