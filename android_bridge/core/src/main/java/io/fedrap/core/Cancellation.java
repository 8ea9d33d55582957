package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;

/** One call that may be cut short from another thread, such as a round in a job that is stopped. */
final class Cancellation {
    private boolean stopped;
    private Runnable ending;

    /** From now on {@link #check} throws, and what blocks now is ended. */
    void stop() {
        Runnable act;
        synchronized (this) {
            stopped = true;
            act = ending;
            ending = null;
        }
        if (act != null) {
            act.run();
        }
    }

    synchronized boolean isStopped() {
        return stopped;
    }

    /** Throws STOPPED once it was stopped, or this thread interrupted. */
    void check() {
        if (isStopped() || Thread.currentThread().isInterrupted()) {
            throw new FedRapException(
                    Kind.STOPPED,
                    "stopped; it goes on where it was another time");
        }
    }

    /** What ends the call that blocks now; null when none does. It must not block. */
    void during(Runnable act) {
        synchronized (this) {
            if (!stopped || act == null) {
                ending = act;
                return;
            }
        }
        act.run();
    }
}
