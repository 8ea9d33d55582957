package io.fedrap.core;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * How the parts of a device look in its store: msgpack, sealed by the store.
 *
 * <p>Nothing there is null but a value that was never written. What is of another version throws
 * anything; {@link SetAside} deals with it.
 */
final class StateCodec {
    private StateCodec() {}

    static byte[] encode(Interaction one) {
        return list(one.item, one.kind, one.weight, one.at);
    }

    static Interaction interaction(byte[] raw) {
        List<?> parts = list(raw);
        return Interaction.stored(
                (String) parts.get(0), (String) parts.get(1), (Double) parts.get(2),
                (Double) parts.get(3));
    }

    static byte[] consents(List<Consent> consents) {
        List<Object> all = new ArrayList<>();
        for (Consent one : consents) {
            all.add(Arrays.<Object>asList(one.train, one.policy, one.at, one.recommend, one.measure));
        }
        return MsgPack.encode(all);
    }

    static List<Consent> consents(byte[] raw) {
        List<Consent> found = new ArrayList<>();
        for (Object one : list(raw)) {
            List<?> parts = (List<?>) one;
            boolean train = (Boolean) parts.get(0); // version 0.1 asked about training only
            boolean recommend = parts.size() > 3 ? (Boolean) parts.get(3) : train;
            String policy = (String) parts.get(1);
            if (policy == null) { // version 0.1 took it; nobody knows what was agreed to
                found.add(new Consent(false, false, false, "an answer that cannot be read", 0));
                continue;
            }
            boolean measure = parts.size() > 4 && (Boolean) parts.get(4);
            found.add(new Consent(recommend, train, measure, policy, (Double) parts.get(2)));
        }
        return found;
    }

    static byte[] ledger(List<Ledger.Entry> entries) {
        List<Object> all = new ArrayList<>();
        for (Ledger.Entry one : entries) {
            all.add(MsgPack.encode(one.toMap()));
        }
        return MsgPack.encode(all);
    }

    static List<Ledger.Entry> ledger(byte[] raw) {
        List<Ledger.Entry> found = new ArrayList<>();
        for (Object one : list(raw)) {
            found.add(Ledger.Entry.from(Fields.ofValue((byte[]) one, Fields.MAX_BYTES)));
        }
        return found;
    }

    static byte[] personal(Map<String, Double> parts) {
        return MsgPack.encode(new LinkedHashMap<String, Object>(parts));
    }

    static Map<String, Double> personal(byte[] raw) {
        Map<String, Double> found = new LinkedHashMap<>();
        if (raw != null) {
            for (Map.Entry<?, ?> one : ((Map<?, ?>) MsgPack.decodeOwn(raw)).entrySet()) {
                found.put((String) one.getKey(), (Double) one.getValue());
            }
        }
        return found;
    }

    /** Texts, in their order. */
    static Set<String> texts(byte[] raw) {
        Set<String> found = new LinkedHashSet<>();
        for (Object one : list(raw)) {
            found.add((String) one);
        }
        return found;
    }

    static byte[] list(Object... parts) {
        return MsgPack.encode(Arrays.asList(parts));
    }

    /** An empty one where nothing was written. */
    static List<?> list(byte[] raw) {
        return raw == null ? new ArrayList<>() : (List<?>) MsgPack.decodeOwn(raw);
    }
}
