package io.fedrap.core;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The device's own record of what it took part in, and its own floor.
 *
 * <p>A device does not have to trust the coordinator's bookkeeping: the entry is written before
 * anything is sent, and an offer that breaks the floor is refused here, whoever asks. Pure.
 */
final class Ledger {
    /** A step whose round was abandoned may be tried again, but not for ever. */
    static final int TRIES_PER_STEP = 3;

    private Ledger() {}

    /** One update, or one answer to a question, that was about to leave this device. */
    static final class Entry {
        final long step;
        final byte[] round;
        final double noise; // as charged: with bands or a clipping bit it is less than z
        final double delta;
        final double at; // seconds since 1970
        final Privacy rule; // what was agreed to; null where another device took part, and for answers
        final boolean question; // `round` is the id of a question then, and there is no step

        Entry(long step, byte[] round, double at, Privacy rule) {
            this(step, round, rule.chargedNoise(), rule.delta, at, rule, false);
        }

        Entry(
                long step, byte[] round, double noise, double delta, double at, Privacy rule,
                boolean question) {
            this.question = question;
            this.step = step;
            this.round = round;
            this.noise = noise;
            this.delta = delta;
            this.at = at;
            this.rule = rule;
        }

        /** As {@link #toMap} wrote it; throws MALFORMED_MESSAGE. */
        static Entry from(Fields f) {
            if (!f.has("rule")) {
                return new Entry(
                        f.count("step"), f.id16("round"), f.number("noise", 0, Double.MAX_VALUE),
                        f.number("delta", 0, 1), f.number("at", 0, 1e12), null,
                        f.flag("question", false));
            }
            return new Entry(
                    f.count("step"),
                    f.id16("round"),
                    f.number("at", 0, 1e12),
                    new Privacy(f.inner("rule")));
        }

        Map<String, Object> toMap() {
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("step", step);
            map.put("round", round);
            map.put("noise", noise);
            map.put("delta", delta);
            map.put("at", at);
            if (rule != null) {
                map.put("rule", rule.toMap());
            }
            if (question) {
                map.put("question", true);
            }
            return map;
        }
    }

    /** The least that this device insists on, whatever an offer says; the default protects. */
    static final class Floor {
        long separation = 2;
        long cap = 100;
        long minUpdates = 20;
        double minNoise;
        double maxEpsilon = 10.0; // in any window, with the round that is offered
        double maxClip = 100.0;
        double windowDays = 365.0; // the shortest in which cap and maxEpsilon hold
        double maxLifetimeEpsilon = 30.0; // of all that this device ever did
        double maxQuestionEpsilon = 2.0; // of all answers to questions in a window
        boolean askAgain; // a weaker policy waits until the user was asked once more

        /** Throws IllegalArgumentException for a number below 0, or none. */
        void check() {
            check("separation", separation);
            check("cap", cap);
            check("min_updates", minUpdates);
            check("min_noise", minNoise);
            check("max_epsilon", maxEpsilon);
            check("max_clip", maxClip);
            check("window_days", windowDays);
            check("max_lifetime_epsilon", maxLifetimeEpsilon);
            check("max_question_epsilon", maxQuestionEpsilon);
        }

        private static void check(String name, double number) {
            Arguments.number(name, number, 0, Double.POSITIVE_INFINITY, Arguments.FLOOR);
        }
    }

    /**
     * Null when the device agrees to an offer; otherwise a word for what breaks the rule.
     *
     * @param consentedAt when the user was last asked
     */
    static String whyNot(
            List<Entry> entries, long step, Plan plan, Floor floor, double now, double consentedAt) {
        Privacy rule = plan.privacy;
        if (plan.minUpdates < floor.minUpdates) {
            return "floor-cohort";
        }
        if (rule.chargedNoise() < floor.minNoise) {
            return "floor-noise";
        }
        if (rule.clip > floor.maxClip) {
            return "floor-clip";
        }
        double days = rule.windowDays > 0 ? rule.windowDays : Double.POSITIVE_INFINITY;
        double since = now - 86_400.0 * Math.max(days, floor.windowDays);
        List<Entry> recent = since(entries, since);
        Entry added = new Entry(step, new byte[16], now, rule);
        if (exceeds(recent, added, floor.maxEpsilon)) {
            return "floor-epsilon";
        }
        if (exceeds(entries, added, Math.max(floor.maxEpsilon, floor.maxLifetimeEpsilon))) {
            return "floor-lifetime";
        }
        Entry agreed = agreed(entries);
        if (floor.askAgain && agreed != null && consentedAt <= agreed.at && isLess(rule, agreed.rule)) {
            return Eligibility.POLICY_CHANGED;
        }
        int tries = 0;
        long gap = Math.max(rule.separation, floor.separation);
        boolean near = false;
        for (Entry entry : entries) {
            tries += !entry.question && entry.step == step ? 1 : 0;
            near |= !entry.question && Math.abs(step - entry.step) < gap;
        }
        if (tries > 0) {
            return tries >= TRIES_PER_STEP ? "ledger-tries" : null;
        }
        // K holds in the plan's window; the floor's own cap in whichever is longer.
        if (chargedSteps(since(entries, now - 86_400.0 * days)) >= rule.cap
                || chargedSteps(recent) >= floor.cap) {
            return "ledger-cap";
        }
        return near ? "ledger-separation" : null;
    }

    /** Seconds that this device still rests after its last round, by what it agreed to then. */
    static double untilRested(List<Entry> entries, double now) {
        Entry last = agreed(entries);
        return last == null
                ? 0
                : 86_400.0 * last.rule.spreadDays / last.rule.cap - Math.max(0, now - last.at);
    }

    /** The last round that this device itself took part in; null where there is none. */
    static Entry agreed(List<Entry> entries) {
        Entry last = null;
        for (Entry one : entries) {
            last = one.rule != null ? one : last;
        }
        return last;
    }

    /** Does a policy guarantee less than another? */
    private static boolean isLess(Privacy offered, Privacy agreed) {
        boolean shorter =
                offered.windowDays > 0
                        && (agreed.windowDays == 0 || offered.windowDays < agreed.windowDays);
        return shorter || offered.epsilon() > agreed.epsilon() * (1 + 1e-9);
    }

    static List<Entry> since(List<Entry> entries, double time) {
        List<Entry> found = new ArrayList<>();
        for (Entry entry : entries) {
            if (entry.at > time) {
                found.add(entry);
            }
        }
        return found;
    }

    static boolean exceeds(List<Entry> entries, Entry added, double most) {
        if (Double.isInfinite(most)) {
            return false;
        }
        List<Entry> with = new ArrayList<>(entries);
        with.add(added);
        return epsilon(with) > most;
    }

    /** The questions that this device has answered. */
    static List<Entry> answers(List<Entry> entries) {
        List<Entry> found = new ArrayList<>();
        for (Entry entry : entries) {
            if (entry.question) {
                found.add(entry);
            }
        }
        return found;
    }

    /** How many steps this device is charged for; one that was tried twice counts once. */
    static int chargedSteps(List<Entry> entries) {
        return noises(entries).size() - noises(answers(entries)).size();
    }

    /** What this device has spent: mu^2 adds up over steps and answers; at the smallest delta asked for. */
    static double epsilon(List<Entry> entries) {
        if (entries.isEmpty()) {
            return 0.0;
        }
        double square = 0.0;
        for (double noise : noises(entries).values()) {
            if (noise == 0) {
                return Double.POSITIVE_INFINITY;
            }
            square += 1.0 / (noise * noise);
        }
        double delta = 1.0;
        for (Entry entry : entries) {
            delta = Math.min(delta, entry.delta);
        }
        return Accounting.gaussianEpsilon(Math.sqrt(square), delta);
    }

    /** The noise of each step and answer: which try was released is not known here, so assume the worst. */
    private static Map<Object, Double> noises(List<Entry> entries) {
        Map<Object, Double> found = new HashMap<>();
        for (Entry entry : entries) {
            Object what = entry.question ? (Object) Bytes.hex(entry.round) : (Object) entry.step;
            Double known = found.get(what);
            found.put(what, known == null ? entry.noise : Math.min(known, entry.noise));
        }
        return found;
    }
}
