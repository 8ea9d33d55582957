package io.fedrap.cli;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What stands on a command line: a command, words, options with a value, and switches. */
final class Arguments {
    private static final List<String> VALUES =
            Arrays.asList("--store", "--token", "--history", "--policy", "--wait", "--recommend", "-n");
    private static final List<String> SWITCHES =
            Arrays.asList(
                    "--agree", "--allow-http", "--no-privacy", "--explain", "--repair", "--yes");

    final String command;
    private final List<String> words = new ArrayList<>();
    private final Map<String, String> options = new HashMap<>();

    Arguments(String[] given) {
        for (int i = 0; i < given.length; i++) {
            if (SWITCHES.contains(given[i])) {
                options.put(given[i], "");
            } else if (VALUES.contains(given[i])) {
                if (i + 1 == given.length) {
                    throw new IllegalArgumentException(given[i] + " needs a value");
                }
                options.put(given[i], given[++i]);
            } else if (given[i].startsWith("-")) {
                throw new IllegalArgumentException(given[i] + " is no option");
            } else {
                words.add(given[i]);
            }
        }
        command = words.isEmpty() ? "help" : words.remove(0);
    }

    boolean has(String option) {
        return options.containsKey(option);
    }

    /** The value of an option, or of a variable of the environment; null when there is neither. */
    String value(String option, String variable) {
        return options.containsKey(option) ? options.get(option) : System.getenv(variable);
    }

    double number(String option, double otherwise) {
        String text = options.get(option);
        try {
            return text == null ? otherwise : Double.parseDouble(text);
        } catch (NumberFormatException error) {
            throw new IllegalArgumentException(option + " takes a number, not " + text, error);
        }
    }

    /** The word behind the command; null when there is none. */
    String word() {
        if (words.size() > 1) {
            throw new IllegalArgumentException("too many words: " + words);
        }
        return words.isEmpty() ? null : words.get(0);
    }
}
