package io.fedrap.core;

import java.util.List;

/** One recommended item. */
public final class Recommendation {
    /** Its id. */
    public final String item;

    /** shared + personal + sequence + popularity + trend + boost; larger is better. */
    public final double score;

    /** Part of the score that the common items C give. */
    public final double shared;

    /** Part of the score that the personal items D give. */
    public final double personal;

    /** Part that what usually comes next gives; 0 where the task has no sequence part. */
    public final double sequence;

    /** Part that the item has for everybody; 0 where the task has no sequence part. */
    public final double popularity;

    /** Part that it has because many touched it lately; 0 where the task has no trend. */
    public final double trend;

    /** Part of the score that the app added for the moment. */
    public final double boost;

    /** Strongest first; they add up to all parts but popularity, trend and boost. Empty unless asked for. */
    public final List<Reason> reasons;

    Recommendation(
            String item,
            double shared,
            double personal,
            double sequence,
            double popularity,
            double trend,
            double boost,
            List<Reason> reasons) {
        this.item = item;
        this.score = shared + personal + (sequence + popularity) + trend + boost;
        this.boost = boost;
        this.shared = shared;
        this.personal = personal;
        this.sequence = sequence;
        this.popularity = popularity;
        this.trend = trend;
        this.reasons = reasons;
    }

    @Override
    public String toString() {
        return item + " " + score;
    }
}
