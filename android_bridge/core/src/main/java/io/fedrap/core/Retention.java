package io.fedrap.core;

import java.util.ArrayList;
import java.util.List;

/**
 * How much of the history a device keeps, and for how long. Pure.
 *
 * <p>What goes is gone from the store. A history that is full gives up its oldest 64th part, so from
 * 64 on it holds a little less than the maximum.
 */
final class Retention {
    private static final double DAY = 86_400.0;
    private static final int PART = 64; // so that most taps cost nothing

    final int maxInteractions;
    final double maxAgeDays; // infinite: no limit

    Retention(int maxInteractions, double maxAgeDays) {
        if (maxInteractions < 1) {
            throw Arguments.wrong("max_interactions", "a history keeps at least one interaction");
        }
        if (!(maxAgeDays > 0)) {
            throw Arguments.wrong("max_age_days", "an age in days lies above 0");
        }
        this.maxInteractions = maxInteractions;
        this.maxAgeDays = maxAgeDays;
    }

    /** Does anything have to go? Cheap enough to ask at each tap. */
    boolean due(int count, double oldest, double now) {
        return count > maxInteractions || oldest < now - maxAgeDays * DAY;
    }

    /** The places in the history, which is in the order of time, of all that may stay. */
    List<Integer> kept(List<Interaction> history, double now) {
        List<Integer> young = new ArrayList<>();
        for (int place = 0; place < history.size(); place++) {
            if (history.get(place).at >= now - maxAgeDays * DAY) {
                young.add(place);
            }
        }
        if (young.size() <= maxInteractions) {
            return young;
        }
        return young.subList(young.size() - maxInteractions + maxInteractions / PART, young.size());
    }
}
