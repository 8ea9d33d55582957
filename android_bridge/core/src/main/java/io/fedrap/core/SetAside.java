package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * Values of a store that cannot be read: kept under another name with a word for why, so that the rest
 * works. Their seals were good, so this is damage of an older version's making, and no forgery.
 */
final class SetAside {
    /** That the ledger could not be read: what was spent is not known any more. */
    static final String LEDGER_LOST = "ledger_lost";

    private static final String ASIDE = "aside/";

    private SetAside() {}

    /** The value of a name as {@code read} has it; one that it cannot read is set aside, and is none. */
    static <T> T read(SealedStore store, String name, Function<byte[], T> read) {
        try {
            return read.apply(store.get(name));
        } catch (RuntimeException error) {
            value(store, name, error);
            return read.apply(null);
        }
    }

    /** Set one aside; throws {@code error} where it is no matter of what the value says. */
    static void value(SealedStore store, String name, RuntimeException error) {
        if (error instanceof FedRapException) {
            Kind kind = ((FedRapException) error).kind();
            if (kind == Kind.STORE_CLOSED || kind == Kind.STORE_LOCKED) {
                throw error;
            }
        }
        Map<String, byte[]> values = new LinkedHashMap<>();
        try {
            values.put(ASIDE + name, store.get(name));
        } catch (FedRapException again) { // its bytes cannot be had, either
            values.put(ASIDE + name, new byte[0]);
        }
        String why = name + ": " + (error instanceof FedRapException ? error.getMessage() : "a record of another version");
        values.put(ASIDE + "why/" + name, why.getBytes(StandardCharsets.UTF_8));
        values.put(name, null);
        if (name.equals("ledger")) {
            values.put(LEDGER_LOST, new byte[] {1});
        }
        store.commit(values, true);
    }

    /** What was set aside, each with a word for why. */
    static List<String> all(SealedStore store) {
        List<String> found = new ArrayList<>();
        for (String name : store.names(ASIDE + "why/")) {
            found.add(new String(store.get(name), StandardCharsets.UTF_8));
        }
        return found;
    }

    /** What deletes all of them. */
    static Map<String, byte[]> gone(SealedStore store) {
        Map<String, byte[]> values = new LinkedHashMap<>();
        for (String name : store.names(ASIDE)) {
            values.put(name, null);
        }
        return values;
    }
}
