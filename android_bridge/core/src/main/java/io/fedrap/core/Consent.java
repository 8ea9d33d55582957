package io.fedrap.core;

/** What the user agreed to, under which policy, and when. */
final class Consent {
    final boolean train;
    final String policy;
    final double at; // seconds since 1970
    final boolean recommend; // releases may be fetched

    final boolean measure; // questions about quality may be answered

    Consent(boolean recommend, boolean train, boolean measure, String policy, double at) {
        this.measure = measure;
        this.recommend = recommend;
        this.train = train;
        this.policy = policy;
        this.at = at;
    }
}
