package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** How the parts of a device look in its store: msgpack, sealed by the store. */
final class StateCodec {
    private StateCodec() {}

    static byte[] encode(Interaction one) {
        return MsgPack.encode(Arrays.<Object>asList(one.item, one.kind, one.weight, one.at));
    }

    static Interaction interaction(byte[] raw) {
        return read(
                () -> {
                    List<?> parts = (List<?>) MsgPack.decode(raw, raw.length);
                    return new Interaction(
                            (String) parts.get(0), (String) parts.get(1), (Double) parts.get(2),
                            (Double) parts.get(3));
                });
    }

    static byte[] consents(List<Consent> consents) {
        List<Object> list = new ArrayList<>();
        for (Consent one : consents) {
            list.add(Arrays.<Object>asList(one.train, one.policy, one.at));
        }
        return MsgPack.encode(list);
    }

    static List<Consent> consents(byte[] raw) {
        return read(
                () -> {
                    List<Consent> found = new ArrayList<>();
                    for (Object one : list(raw)) {
                        List<?> parts = (List<?>) one;
                        found.add(
                                new Consent(
                                        (Boolean) parts.get(0), (String) parts.get(1),
                                        (Double) parts.get(2)));
                    }
                    return found;
                });
    }

    static byte[] ledger(List<Ledger.Entry> entries) {
        List<Object> list = new ArrayList<>();
        for (Ledger.Entry one : entries) {
            list.add(MsgPack.encode(one.toMap()));
        }
        return MsgPack.encode(list);
    }

    static List<Ledger.Entry> ledger(byte[] raw) {
        return read(
                () -> {
                    List<Ledger.Entry> found = new ArrayList<>();
                    for (Object one : list(raw)) {
                        found.add(Ledger.Entry.from(Fields.ofValue((byte[]) one, Fields.MAX_BYTES)));
                    }
                    return found;
                });
    }

    static byte[] personal(Map<String, Double> parts) {
        return MsgPack.encode(new LinkedHashMap<String, Object>(parts));
    }

    static Map<String, Double> personal(byte[] raw) {
        return read(
                () -> {
                    Map<String, Double> found = new LinkedHashMap<>();
                    if (raw != null) {
                        Map<?, ?> parts = (Map<?, ?>) MsgPack.decode(raw, raw.length);
                        for (Map.Entry<?, ?> one : parts.entrySet()) {
                            found.put((String) one.getKey(), (Double) one.getValue());
                        }
                    }
                    return found;
                });
    }

    /** One number or several. */
    static byte[] numbers(Object... numbers) {
        return MsgPack.encode(Arrays.asList(numbers));
    }

    static List<?> list(byte[] raw) {
        return raw == null ? new ArrayList<>() : read(() -> (List<?>) MsgPack.decode(raw, raw.length));
    }

    static <T> T read(Supplier<T> reading) {
        try {
            return reading.get();
        } catch (ClassCastException | IndexOutOfBoundsException | IllegalArgumentException error) {
            throw another(error);
        } catch (FedRapException error) {
            throw error.kind() == Kind.MALFORMED_MESSAGE ? another(error) : error;
        }
    }

    private static FedRapException another(RuntimeException error) {
        return new FedRapException(
                Kind.STORE_DAMAGED,
                "a record of another version; update the app, or delete the store to start afresh", error);
    }
}
