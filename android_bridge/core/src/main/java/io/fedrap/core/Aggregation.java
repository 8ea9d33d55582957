package io.fedrap.core;

import java.security.SecureRandom;
import java.util.Map;

/**
 * A way to add updates up in which nobody sees one device's: {@link Config#aggregation}. The module {@code
 * fedrap-split} has the one that there is.
 */
public abstract class Aggregation {
    Aggregation() {}

    /** A word for {@code status()}. */
    abstract String name();

    /** The identity of the second server, which the app pins: a point. */
    abstract byte[] helper();

    /** Who is trusted with what. */
    abstract Map<String, String> trusted();

    /** A word where an offer is not of this helper; otherwise null. */
    abstract String whyNot(Offer offer);

    /**
     * The bytes of an update as it was computed.
     *
     * @throws FedRapException as a share does
     */
    abstract byte[] update(
            Offer offer, Plan plan, byte[] device, int items, RowUpdate update, SecureRandom random);

    /** The bytes of an answer, whose squares add up to so many steps; null where another helper sums it. */
    abstract byte[] answer(Fields question, byte[] device, byte[] answer, long limit);
}
