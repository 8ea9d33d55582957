package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.util.Arrays;

/** Fetching what is new of C and, with it, of the catalogue: items get numbers with a release. */
final class ReleaseSync {
    private ReleaseSync() {}

    /**
     * A delta that does not fit is made good by fetching the whole.
     *
     * @throws FedRapException BROKEN_MODEL: the new release is damaged or hostile; the old one stays.
     */
    static void sync(DeviceState state, Transport transport) {
        LocalModel inUse = state.model();
        ReleaseMessage message = transport.release(inUse == null ? null : inUse.common.version);
        if (message == null) {
            return;
        }
        try {
            adopt(state, transport, message, inUse);
        } catch (FedRapException error) {
            if (error.kind() != Kind.BROKEN_MODEL || message.delta == null) {
                throw error;
            }
            ReleaseMessage whole = transport.release(null);
            if (whole != null) {
                adopt(state, transport, whole, inUse);
            }
        }
    }

    private static void adopt(
            DeviceState state, Transport transport, ReleaseMessage message, LocalModel inUse) {
        Credentials credentials = state.credentials();
        if (credentials != null && !Arrays.equals(message.task(), credentials.task)) {
            throw FedRapException.broken("a release of another task");
        }
        if (inUse != null && message.version() < inUse.common.version) {
            throw FedRapException.broken(
                    "release " + message.version() + " is older than " + inUse.common.version
                            + ", which is in use");
        }
        ItemList catalogue = state.catalogue();
        if (catalogue.version < message.catalogue()) {
            catalogue = catalogue.extended(transport.catalogue(catalogue.count));
        }
        state.adopt(message, catalogue, inUse);
    }
}
