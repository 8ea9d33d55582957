package io.fedrap.core;

import java.util.List;

/**
 * Answers questions about how good this device's lists were, for users who agree to that: {@code
 * config.measure(new Measuring())}. Every interaction is ranked once, some milliseconds each, in the thread
 * of a round, a sync or an answer; a few sums of it are kept, sealed, until they are asked for.
 */
public final class Measuring extends Measure {
    @Override
    void look(DeviceState state) {
        LocalModel model;
        LocalModel full;
        List<Interaction> all;
        long[] numbers;
        long since;
        byte[] kept;
        synchronized (state) {
            model = state.inUse();
            full = state.model();
            if (model == null || !state.mayMeasure()) {
                return;
            }
            all = state.interactions();
            numbers = state.numbers();
            since = state.since();
            kept = state.measured();
        }
        Gains before = Gains.decode(kept);
        Gains found = before.measured(model, full, all, numbers, since);
        synchronized (state) { // what was forgotten or adopted meanwhile wins
            if (found != before && state.inUse() == model && state.since() == since) {
                state.keepMeasured(found.encode());
            }
        }
    }

    @Override
    int answer(
            DeviceState state,
            Transport transport,
            Credentials credentials,
            byte[] authority,
            Config config) {
        return new Answering(state, transport, credentials, authority, config).run();
    }

    /** What this device has to say to a question; zeros where that is nothing. */
    static byte[] answer(DeviceState state, Question question) {
        LocalModel model;
        List<Interaction> all;
        long[] numbers;
        long since;
        Gains gains;
        if (question.lists > 0) {
            return question.answer(new double[][] {Lists.of(state, question)}, 0);
        }
        synchronized (state) {
            model = state.model();
            all = state.interactions();
            numbers = state.numbers();
            since = state.since();
            gains = Gains.decode(state.measured());
        }
        return question.answer(gains.answer(question, model, all, numbers, since), all.size());
    }

    @Override
    public String toString() {
        return "Measuring()";
    }
}
