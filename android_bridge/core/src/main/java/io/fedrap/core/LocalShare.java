package io.fedrap.core;

/** The answer to a {@link ShareProblem}; all of it stays on the device until it is clipped. */
public final class LocalShare {
    final double[] user; // (k) x
    final double[] gradients; // (n·k)
    final double loss;

    /**
     * An answer; the arrays must not be changed afterwards.
     *
     * @param user x: (k)
     * @param gradients g_j = a_j·(x·C_j - 1)·x, row after row: (n·k)
     * @param loss the objective at x over its value at x = 0, in [0, 1]
     */
    public LocalShare(double[] user, double[] gradients, double loss) {
        this.user = user;
        this.gradients = gradients;
        this.loss = loss;
    }

    /** A copy of x. */
    public double[] user() {
        return user.clone();
    }

    /** A copy of all g_j, row after row. */
    public double[] gradients() {
        return gradients.clone();
    }

    /** The objective at x over its value at x = 0, in [0, 1]. */
    public double loss() {
        return loss;
    }

    @Override
    public String toString() {
        return "LocalShare(...)"; // what a user did belongs in no log
    }
}
