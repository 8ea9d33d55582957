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
 * each of these scorings would have given under the one release; with a trial about the lead of the one
 * release, which is staged; with lists about what lists consist of under the one release.
 */
final class Question {
    static final List<String> METRICS = Arrays.asList("hr10", "ndcg10", "ndcg", "mrr");
    private static final int MOST_RELEASES = 8;
    private static final int MOST_VARIANTS = 16;
    private static final double LATEST = 0.9; // of its time, at which the last devices answer
    private static final double TRIED = 0.6; // before which none speaks of a staged release: it has to be used
    private static final double ROUGH = 0.25; // p: squares need not be exact, and weigh little

    final byte[] task;
    final byte[] question;
    final String metric;
    final List<Long> releases = new ArrayList<>();
    final List<Scoring> variants = new ArrayList<>(); // the one in force first; empty: none
    final Trial trial; // null: none
    final int lists; // buckets that items of lists fall into; 0: it is not about lists
    final boolean lately; // beside the popular list also that of the trend
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
    final Fields fields; // as they came
    final boolean isSplit; // answers are shares for two servers

    private Question(Fields f) {
        fields = f;
        isSplit = f.asMap().containsKey("helper");
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
        trial = f.asMap().containsKey("trial") ? new Trial(f.inner("trial")) : null;
        lists = f.asMap().containsKey("lists") ? (int) f.integer("lists", 8, 1024) : 0;
        lately = f.flag("lately", false);
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

    /** A release that is staged to a share of the devices, each of which draws whether it is in it. */
    static final class Trial {
        final byte[] rollout;
        final double share;
        final long base; // the full release that it stands beside

        private Trial(Fields f) {
            rollout = f.id16("rollout");
            share = f.number("share", Double.MIN_VALUE, 1);
            base = f.count("base");
        }

        /** Is the device of this key among them? The same at each larger share. */
        boolean has(byte[] secret) {
            return uniform(secret, "trial ", rollout) < share;
        }
    }

    /** Throws as {@link Fields#ofMessage}. */
    static Question decode(byte[] raw) {
        return new Question(Fields.ofMessage(raw, Fields.MAX_BYTES, "question"));
    }

    /**
     * Can this version lay out an answer at all? Candidates are two or more, of one release; a trial and a
     * look at lists are of one release and of it alone.
     */
    boolean isAnswerable() {
        if (trial != null || lists > 0) {
            boolean both = trial != null && lists > 0;
            return !both && !lately && variants.isEmpty() && light == 0 && releases.size() == 1;
        }
        boolean named = new HashSet<>(releases).size() == releases.size();
        return named && (variants.isEmpty() || !lately && variants.size() > 1 && releases.size() == 1);
    }

    private int groups() {
        return light > 0 ? 2 : 1;
    }

    private int compared() {
        int lines = variants.isEmpty() ? lately ? 3 : 2 : variants.size();
        return trial != null || lists > 0 ? 0 : lines - 1;
    }

    /** Q: squares of an answer in steps of 1/31, whatever the gains are and however they are rounded (14.10). */
    long limit() {
        long rough = 8; // ceil(31 p)
        long block = 961 + 2 * rough * rough + compared() * (961 + rough * rough) + (lists > 0 ? 961 : 0);
        return releases.size() * block;
    }

    /** What a device with these gains says, for each block those of its lines or null; float32. */
    byte[] answer(double[][] gains, int recorded) {
        if (trial != null || lists > 0) {
            return vector(1, 0, lists, trial != null, gains, 0);
        }
        return vector(groups(), compared(), 0, false, gains, light > 0 && recorded > light ? 1 : 0);
    }

    /**
     * p, g, p g^2, then d = g_i - g and p d^2 of each line compared, then the shares of buckets (14.9); zeros
     * elsewhere (14.3). Gains are in [0, 1], or where they are differences themselves in [-1, 1].
     */
    static byte[] vector(
            int groups, int compared, int buckets, boolean signed, double[][] gains, int group) {
        int width = 3 + 2 * compared + buckets;
        double lowest = signed ? -1.0 : 0.0;
        float[] out = new float[gains.length * groups * width];
        for (int block = 0; block < gains.length; block++) {
            if (gains[block] != null) {
                int at = (block * groups + group) * width;
                double first = bounded(lowest, gains[block][0]);
                out[at++] = (float) ROUGH;
                out[at++] = (float) first;
                out[at++] = (float) (ROUGH * first * first);
                for (int line = 1; line <= compared; line++) {
                    double more = bounded(lowest, gains[block][line]) - first;
                    out[at++] = (float) more;
                    out[at++] = (float) (ROUGH * (more * more));
                }
                for (int bucket = 1; bucket <= buckets; bucket++) {
                    out[at++] = (float) gains[block][compared + bucket];
                }
            }
        }
        return Bytes.bytes(out);
    }

    private static double bounded(double lowest, double gain) {
        return Math.max(lowest, Math.min(1.0, gain));
    }

    /** When the device of this key answers, in seconds since 1970: spread evenly, told to nobody. */
    double moment(byte[] secret) {
        double first = trial == null ? 0.0 : TRIED;
        double place = first + (LATEST - first) * uniform(secret, "question ", question);
        return askedAt + place * (endsAt - askedAt);
    }

    /** In [0, 1): what the device of this key draws for that, always the same. */
    static double uniform(byte[] secret, String what, byte[] id) {
        byte[] info = Bytes.join(Bytes.ascii("fedrap/1 sampling " + what), id);
        byte[] derived = Hkdf.expand(Hkdf.extract(new byte[0], secret), info, 44);
        int[] state = Bytes.integers(Bytes.join(Bytes.ascii("expand 32-byte k"), derived));
        int[] start = new int[16]; // key and nonce, with the counter 0 between them
        System.arraycopy(state, 0, start, 0, 12);
        System.arraycopy(state, 12, start, 13, 3);
        return RoundShare.fractions(Arrays.copyOf(Bytes.bytes(chacha(start)), 8))[0];
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
