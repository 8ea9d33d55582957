package io.fedrap.core;

import java.io.File;
import java.util.List;

/** What {@code export} wrote: the user's own data, readable, without any key. */
public final class Exported {
    /** The zip. */
    public final File file;

    /** Names in the zip. */
    public final List<String> files;

    /** How many are in there. */
    public final int interactions;

    /** Of the zip. */
    public final long sizeBytes;

    Exported(File file, List<String> files, int interactions, long sizeBytes) {
        this.file = file;
        this.files = files;
        this.interactions = interactions;
        this.sizeBytes = sizeBytes;
    }

    @Override
    public String toString() {
        return "Exported(" + file + ", " + sizeBytes + " bytes)";
    }
}
