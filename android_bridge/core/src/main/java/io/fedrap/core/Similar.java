package io.fedrap.core;

/** An item like another one, in what everybody taught C. */
public final class Similar {
    /** Its id. */
    public final String item;

    /** Of the two rows of C, from -1 to 1. */
    public final double cosine;

    Similar(String item, double cosine) {
        this.item = item;
        this.cosine = cosine;
    }

    @Override
    public String toString() {
        return item + " " + cosine;
    }
}
