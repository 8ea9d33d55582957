package io.fedrap.core;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * What this device's list consists of: how much of it is popular, and which buckets its items fall into, by a
 * hash that is another one for each question (14.9).
 */
final class Lists {
    private static final double POPULAR = 0.1; // of the items that may be shown, in the catalogue's order
    private static final int LONGEST = 10; // items of a list that are looked at

    private Lists() {}

    /** The share of popular items, then those of the buckets; null where there is no list of that release. */
    static double[] of(DeviceState state, Question asked) {
        LocalModel model;
        List<Recommendation> found;
        synchronized (state) {
            model = state.inUse();
            if (model == null || model.common.version != asked.releases.get(0) || !model.isTaught()) {
                return null;
            }
            found = model.recommend(state.interactions(), state.hidden(), state.attributes(), new Wish(LONGEST));
        }
        List<String> items = new ArrayList<>();
        for (Recommendation one : found) {
            items.add(one.item);
        }
        return items.isEmpty() ? null : lines(popular(model, items), items, asked.question, asked.lists);
    }

    /** How much of a list is among the first of what may be shown. */
    private static double popular(LocalModel model, List<String> items) {
        int shown = 0;
        int[] before = new int[model.shown.length]; // rows that may be shown and come first
        for (int row = 0; row < before.length; row++) {
            before[row] = shown;
            shown += model.shown[row] ? 1 : 0;
        }
        double count = 0;
        for (String item : items) {
            count += before[model.row(item)] < POPULAR * shown ? 1 : 0;
        }
        return count / items.size();
    }

    /** The one share, then which share of these items falls into each bucket. */
    static double[] lines(double popular, List<String> items, byte[] question, int buckets) {
        double[] lines = new double[1 + buckets];
        for (String item : items) {
            byte[] digest = Bytes.sha256(question, item.getBytes(StandardCharsets.UTF_8));
            long place = 0;
            for (int i = 7; i >= 0; i--) {
                place = place << 8 | digest[i] & 0xff;
            }
            lines[1 + (int) Long.remainderUnsigned(place, buckets)]++;
        }
        for (int bucket = 1; bucket <= buckets; bucket++) {
            lines[bucket] /= items.size();
        }
        lines[0] = popular;
        return lines;
    }
}
