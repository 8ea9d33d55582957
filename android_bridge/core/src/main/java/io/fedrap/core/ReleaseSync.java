package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Fetching what is new of C and, with it, of the catalogue: items get numbers with a release.
 *
 * <p>Only what the task's authority signed is taken, and only where the log leads from the release
 * that is held to the new one.
 */
final class ReleaseSync {
    private static final int MOST_PAGES = 500; // of the log; a device that slept longer starts anew

    private ReleaseSync() {}

    /**
     * A delta that does not fit is made good by fetching the whole. The authority is null where none is
     * known yet.
     *
     * @throws FedRapException BROKEN_MODEL: the new release is damaged or hostile; SIGNATURE_INVALID: it
     *     is not what the authority signed; FORKED_LOG: it does not follow. The old one stays.
     */
    static void sync(DeviceState state, Transport transport, byte[] authority) {
        LocalModel inUse = state.model();
        boolean trusted = trusted(inUse, authority).length > 0;
        ReleaseMessage message = transport.release(trusted ? inUse.common.version : null);
        if (message == null) {
            return;
        }
        try {
            adopt(state, transport, message, inUse, authority);
        } catch (FedRapException error) {
            if (error.kind() != Kind.BROKEN_MODEL || !message.isDelta()) {
                throw error;
            }
            ReleaseMessage whole = transport.release(null);
            if (whole != null) {
                adopt(state, transport, whole, inUse, authority);
            }
        }
    }

    /** The entry of the release in use, where this authority signed it; otherwise nothing. */
    static byte[] trusted(LocalModel inUse, byte[] authority) {
        byte[] entry = inUse == null ? new byte[0] : inUse.header.entry;
        boolean good = entry.length > 0 && (authority == null || Authority.isSignedBy(authority, entry));
        return good ? entry : new byte[0];
    }

    private static void adopt(
            DeviceState state,
            Transport transport,
            ReleaseMessage message,
            LocalModel inUse,
            byte[] authority) {
        Credentials credentials = state.credentials();
        if (credentials != null && !Arrays.equals(message.task, credentials.task)) {
            throw FedRapException.broken("a release of another task");
        }
        ReleaseEntry entry = Authority.checkRelease(authority, message);
        if (entry.staged.length > 0) {
            throw Authority.unsigned(entry, "is staged, and not for every device");
        }
        byte[] held = trusted(inUse, authority);
        LocalModel staged = state.staged();
        if (held.length > 0 && staged != null) {
            held = staged.header.entry; // what was seen of the log since
        }
        boolean known = Arrays.equals(Authority.digest(held), Authority.digest(message.entry));
        if (held.length > 0 && !known) {
            checkFollows(transport, held, message.entry);
        }
        ItemList catalogue = state.catalogue();
        if (catalogue.version < message.catalogue) {
            catalogue = catalogue.extended(transport.catalogue(catalogue.count));
        }
        state.adopt(message, catalogue, inUse);
    }

    /** Returns when the log leads from the entry that is held to this one; throws FORKED_LOG. */
    private static void checkFollows(Transport transport, byte[] held, byte[] signed) {
        byte[] last = held;
        long wanted = Authority.read(signed).version;
        for (int page = 0; page < MOST_PAGES; page++) {
            if (Authority.followsAtOnce(last, signed)) {
                Authority.checkLeads(last, Collections.singletonList(signed));
                return;
            }
            long version = Authority.read(last).version;
            List<byte[]> between = new ArrayList<>();
            for (byte[] one : transport.log(version)) {
                long number = Authority.read(one).version;
                if (number > version && number < wanted) {
                    between.add(one);
                }
            }
            if (between.isEmpty()) {
                break;
            }
            Authority.checkLeads(last, between);
            last = between.get(between.size() - 1);
        }
        throw Authority.forked(
                "the log does not lead from release " + Authority.read(held).version
                        + ", which is held, to release " + wanted
                        + ": this device was shown another history than others");
    }

    /** The successor that an offer is about, for one round; throws as {@link #sync} (9.8). */
    static LocalModel successor(
            DeviceState state, Transport transport, LocalModel held, Offer offer, byte[] authority) {
        byte[] raw = transport.releaseOf(offer.release);
        ReleaseMessage message = ReleaseMessage.decode(raw, raw.length);
        ReleaseEntry entry = Authority.checkRelease(authority, message);
        boolean ours = Arrays.equals(message.task, offer.task) && offer.beside == held.common.version;
        if (!ours || entry.staged.length == 0 || message.isDelta()) {
            throw Authority.unsigned(entry, "is no successor of the one in use");
        }
        return state.beside(message, held);
    }

    /**
     * Fetch the pages of public attributes that changed: all of them or, on any fault, none (clauses 11).
     *
     * @throws FedRapException BROKEN_MODEL or SIGNATURE_INVALID: damaged or hostile; the old ones stay.
     */
    static void attributes(DeviceState state, Transport transport, byte[] authority) {
        ItemAttributes held = state.attributes();
        byte[][] message;
        try {
            message = transport.attributes();
        } catch (UpdateRefused refused) {
            if (refused.is("not-found")) { // a coordinator of before there were any
                return;
            }
            throw refused;
        }
        AttributesEntry entry = AttributesEntry.checked(message[0], message[1], authority);
        Credentials credentials = state.credentials();
        if (credentials != null && !Arrays.equals(entry.task, credentials.task)) {
            throw FedRapException.broken("attributes of another task");
        }
        if (!held.givesWayTo(entry)) {
            return;
        }
        Map<String, byte[]> known = new HashMap<>();
        for (int number = 0; number < held.pages.size(); number++) {
            known.put(
                    Bytes.hex(AttributesEntry.digest(held.digests, number)), held.pages.get(number));
        }
        List<byte[]> pages = new ArrayList<>();
        long size = 0;
        for (int number = 0; number < message[1].length / AttributesEntry.DIGEST; number++) {
            byte[] digest = AttributesEntry.digest(message[1], number);
            byte[] raw = known.get(Bytes.hex(digest));
            if (raw == null) {
                raw = transport.attributePage(digest);
                entry.check(number, digest, raw);
            }
            size += raw.length;
            if (size > entry.sizeBytes) {
                throw FedRapException.broken("pages of attributes with more bytes than were signed");
            }
            pages.add(raw);
        }
        ItemAttributes fresh = ItemAttributes.of(entry, message[1], pages);
        if (!fresh.isSame(held)) {
            state.adoptAttributes(fresh);
        }
    }
}
