package io.fedrap.core;

/** What the user agreed to, under which policy, and when. */
final class Consent {
    final boolean train;
    final String policy;
    final double at; // seconds since 1970
    final boolean recommend; // releases may be fetched

    Consent(boolean recommend, boolean train, String policy, double at) {
        this.recommend = recommend;
        this.train = train;
        this.policy = policy;
        this.at = at;
    }
}
