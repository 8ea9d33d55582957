package io.fedrap.core;

/**
 * Looks at how good this device's lists are, and answers questions about it: {@link Config#measure}. The
 * module {@code fedrap-measure} has the one that there is; an app without it answers none.
 */
public abstract class Measure {
    Measure() {}

    /** Look at what was recorded and not looked at yet, before another release is adopted. */
    abstract void look(DeviceState state);

    /** Answer what is to be answered now; how many questions that were. Throws as a round does. */
    abstract int answer(
            DeviceState state,
            Transport transport,
            Credentials credentials,
            byte[] authority,
            Config config);
}
