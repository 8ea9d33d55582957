package io.fedrap.core;

/** How much one item of the user's own history adds to a score. */
public final class Reason {
    /** The item. */
    public final String item;

    /** Through what all users together say of both items. */
    public final double shared;

    /** Through what is true of this user alone. */
    public final double personal;

    Reason(String item, double shared, double personal) {
        this.item = item;
        this.shared = shared;
        this.personal = personal;
    }

    @Override
    public String toString() {
        return "Reason(...)"; // what a user did belongs in no log
    }
}
