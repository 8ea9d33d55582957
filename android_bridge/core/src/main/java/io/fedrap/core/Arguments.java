package io.fedrap.core;

import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Map;

/**
 * What the public calls take: every argument is checked here, before anything is touched. Pure.
 *
 * <p>The sentences are those of Python; spec/vectors/bad_calls.json is the table of calls that both
 * refuse. What is wrong is an {@link IllegalArgumentException}.
 */
final class Arguments {
    static final String ITEM = "an item id is text of 1 to 200 characters without a line break";
    static final String KIND = "a kind is text of 1 to 50 characters";
    static final String WEIGHT = "a weight is a number above 0 and at most 1000";
    static final String TIME =
            "a time is a number of seconds since 1970, before the year 2100; is this in milliseconds?";
    static final String ITEMS = "a collection of item ids is expected, not one text";
    static final String INTERACTIONS = "a collection of interactions is expected";
    static final String POLICY =
            "the name of the text that the user saw is text of 1 to 200 characters";
    static final String FOLDER =
            "the name of a folder has 1 to 100 characters, no slash, and does not begin with a dot";
    static final String PATH = "the path of a file or folder is expected";
    static final String ADDRESS =
            "the address of a coordinator is https:// with a host, and no user in it";
    static final String PROFILE = "the name of a profile is text of 1 to 200 characters";
    static final String PASSPHRASE = "a passphrase is text of 8 to 1000 characters";
    static final String SECONDS = "a number of seconds from 0 up is expected";
    static final String SHARE = "a number from 0 to 1 is expected";
    static final String TEST =
            "a callable is expected, or a mapping of attributes to the values that they may have";
    static final String NUMBERS =
            "a mapping of item ids to numbers from -1000000 to 1000000 is expected";
    static final String CALLABLE = "a callable is expected";
    static final String FETCH = "consented or anonymous is expected";
    static final String TRAIN_ALONE = "who trains fetches releases too: recommend cannot be false";
    static final String MEASURE_ALONE = 
            "who answers questions also trains: measure needs train";
    static final String FLOOR = "a number from 0 up is expected";

    private static final double LATEST = 4_102_444_800.0; // the year 2100

    private Arguments() {}

    static IllegalArgumentException wrong(String name, String rule) {
        return new IllegalArgumentException(name + ": " + rule);
    }

    /** Text of so many characters, counted as Python does, that can be written down. */
    static String text(String name, String value, int most, String rule) {
        if (value == null || value.isEmpty() || !isWritable(value)) {
            throw wrong(name, rule);
        }
        if (value.codePointCount(0, value.length()) > most) {
            throw wrong(name, rule);
        }
        return value;
    }

    /** Half a surrogate pair is no character, and no file takes it. */
    private static boolean isWritable(String value) {
        return StandardCharsets.UTF_8.newEncoder().canEncode(value);
    }

    static String item(String name, String value) {
        if (value == null || !ItemIds.isItemId(value) || !isWritable(value)) {
            throw wrong(name, ITEM);
        }
        return value;
    }

    static Collection<String> items(String name, Collection<String> value) {
        present(name, value, ITEMS);
        for (String one : value) {
            present(name, one, ITEMS);
        }
        return value;
    }

    static double number(String name, double value, double least, double most, String rule) {
        if (!(value >= least && value <= most)) { // also for NaN
            throw wrong(name, rule);
        }
        return value;
    }

    static double weight(String name, double value) {
        if (!(value > 0 && value <= 1000)) {
            throw wrong(name, WEIGHT);
        }
        return value;
    }

    /** Seconds since 1970; NaN is now. */
    static double time(String name, double value) {
        return Double.isNaN(value) ? value : number(name, value, 0, LATEST, TIME);
    }

    static double seconds(String name, double value) {
        return number(name, value, 0, 1e12, SECONDS);
    }

    static String folderName(String name, String value) {
        text(name, value, 100, FOLDER);
        boolean leadsElsewhere = value.startsWith(".");
        for (char sign : new char[] {'/', '\\', '\0', '\r', '\n'}) {
            leadsElsewhere |= value.indexOf(sign) >= 0;
        }
        if (leadsElsewhere) {
            throw wrong(name, FOLDER);
        }
        return value;
    }

    static String passphrase(String value) {
        text("passphrase", value, 1000, PASSPHRASE);
        if (value.codePointCount(0, value.length()) < 8) {
            throw wrong("passphrase", PASSPHRASE);
        }
        return value;
    }

    static <T> T present(String name, T value, String rule) {
        if (value == null) {
            throw wrong(name, rule);
        }
        return value;
    }

    static Map<String, Double> numbersOf(String name, Map<String, Double> value) {
        present(name, value, NUMBERS);
        for (Map.Entry<String, Double> one : value.entrySet()) {
            if (one.getKey() == null || one.getValue() == null) {
                throw wrong(name, NUMBERS);
            }
            number(name, one.getValue(), -1e6, 1e6, NUMBERS);
        }
        return value;
    }
}
