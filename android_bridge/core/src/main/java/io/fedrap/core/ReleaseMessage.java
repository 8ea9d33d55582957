package io.fedrap.core;

/** A whole release, or what makes it out of an earlier one: exactly one of the two is there. */
final class ReleaseMessage {
    final Release release;
    final Delta delta;

    ReleaseMessage(Release release) {
        this.release = release;
        this.delta = null;
    }

    ReleaseMessage(Delta delta) {
        this.release = null;
        this.delta = delta;
    }

    byte[] task() {
        return release != null ? release.task : delta.task;
    }

    long version() {
        return release != null ? release.version : delta.version;
    }

    /** Its entry of the log, as signed. */
    byte[] entry() {
        return release != null ? release.entry : delta.entry;
    }

    /** Its sequence part; null where there is none. */
    SequenceBody sequence() {
        return release != null ? release.sequence : delta.sequence;
    }

    /** Its trend, as sent; empty where there is none. */
    byte[] trend() {
        return release != null ? release.trend : delta.trend;
    }

    /** Rows that it states; nothing was made of them yet. */
    long size() {
        return release != null ? release.size : delta.size;
    }

    /** Version of the catalogue that has the rows of this release. */
    long catalogue() {
        return release != null ? release.catalogue : delta.catalogue;
    }
}
