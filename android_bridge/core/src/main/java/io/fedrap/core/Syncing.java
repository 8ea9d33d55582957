package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.util.Arrays;

/** Fetching what is new of C and, with it, of the catalogue: items get numbers with a release. */
final class Syncing {
    private Syncing() {}

    /**
     * A delta that does not fit is made good by fetching the whole.
     *
     * @throws FedRapException BROKEN_MODEL: the new release is damaged or hostile; the old one stays.
     */
    static void sync(DeviceState state, Transport transport) {
        LocalModel held = state.model();
        News news = transport.release(held == null ? null : held.common.version);
        if (news == null) {
            return;
        }
        try {
            adopt(state, transport, news, held);
        } catch (FedRapException error) {
            if (error.kind() != Kind.BROKEN_MODEL || news.delta == null) {
                throw error;
            }
            News whole = transport.release(null);
            if (whole != null) {
                adopt(state, transport, whole, held);
            }
        }
    }

    private static void adopt(
            DeviceState state, Transport transport, News news, LocalModel held) {
        Credentials credentials = state.credentials();
        if (credentials != null && !Arrays.equals(news.task(), credentials.task)) {
            throw FedRapException.broken("a release of another task");
        }
        if (held != null && news.version() < held.common.version) {
            throw FedRapException.broken(
                    "release " + news.version() + " is older than " + held.common.version
                            + ", which is in use");
        }
        ItemList catalogue = state.catalogue();
        if (catalogue.version < news.catalogue()) {
            catalogue = catalogue.extended(transport.catalogue(catalogue.count));
        }
        state.adopt(news, catalogue, held);
    }
}
