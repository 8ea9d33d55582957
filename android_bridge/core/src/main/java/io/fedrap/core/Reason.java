package io.fedrap.core;

/** How much one item of the user's own history adds to a score. */
public final class Reason {
    /** The item. */
    public final String item;

    /** Through what all users together say of both items. */
    public final double shared;

    /** Through what is true of this user alone. */
    public final double personal;

    /** Through what usually comes next; 0 where the task has no sequence part. */
    public final double sequence;

    Reason(String item, double shared, double personal, double sequence) {
        this.item = item;
        this.shared = shared;
        this.personal = personal;
        this.sequence = sequence;
    }

    @Override
    public String toString() {
        return "Reason(...)"; // what a user did belongs in no log
    }
}
