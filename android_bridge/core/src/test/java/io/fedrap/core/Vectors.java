package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.function.Executable;

/** The golden vectors of spec/vectors, which Python wrote, case by case. */
public final class Vectors {
    public static final double ABSOLUTE = 2e-6;
    public static final double RELATIVE = 1e-5;

    private Vectors() {}

    /** What to do with one case. */
    public interface Check {
        void run(Case one) throws Exception;
    }

    /** The root of the repository. */
    public static Path root() {
        return Paths.get(System.getProperty("fedrap.root", "../.."));
    }

    /** All cases of a file such as "codec". */
    public static List<Case> cases(String file) {
        Path path = root().resolve("spec/vectors/" + file + ".json");
        try {
            String text = new String(Files.readAllBytes(path), StandardCharsets.UTF_8);
            List<Case> cases = new ArrayList<>();
            for (Object one : (List<?>) ((Map<?, ?>) Json.parse(text)).get("cases")) {
                cases.add(new Case((Map<?, ?>) one));
            }
            assertTrue(!cases.isEmpty(), path + " has no cases");
            return cases;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A test for each case of a file. */
    public static Stream<DynamicTest> each(String file, Check check) {
        return cases(file).stream().map(one -> dynamicTest(one.comment(), () -> check.run(one)));
    }

    /** Right within absolute + relative·|expected|. */
    public static void close(double[] expected, double[] actual) {
        assertEquals(expected.length, actual.length, "how many numbers");
        for (int i = 0; i < expected.length; i++) {
            close(expected[i], actual[i]);
        }
    }

    /** Right within absolute + relative·|expected|; infinity only where it is expected. */
    public static void close(double expected, double actual) {
        if (Double.isInfinite(expected)) {
            assertEquals(expected, actual);
        } else {
            double slack = ABSOLUTE + RELATIVE * Math.abs(expected);
            assertTrue(
                    Math.abs(expected - actual) <= slack, expected + " expected, got " + actual);
        }
    }

    /** The bytes of a hex text. */
    public static byte[] unhex(String hex) {
        byte[] out = new byte[hex.length() / 2];
        for (int i = 0; i < out.length; i++) {
            out[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return out;
    }

    /** The hex text of bytes. */
    public static String hex(byte[] raw) {
        StringBuilder out = new StringBuilder();
        for (byte b : raw) {
            out.append(String.format("%02x", b));
        }
        return out.toString();
    }

    /** One case, or a map inside one. */
    public static final class Case {
        public final Map<?, ?> fields;

        Case(Map<?, ?> fields) {
            this.fields = fields;
        }

        public String comment() {
            return text("comment");
        }

        public boolean valid() {
            return (Boolean) fields.get("valid");
        }

        /** Runs what must be refused with the error that the case names. */
        public void refuses(Executable call) {
            FedRapException error = assertThrows(FedRapException.class, call);
            assertEquals(text("error"), nameOf(error.kind()), error.getMessage());
        }

        public Object get(String name) {
            assertTrue(fields.containsKey(name), "no field " + name + " in " + fields.keySet());
            return fields.get(name);
        }

        public String text(String name) {
            return (String) get(name);
        }

        public byte[] bytes(String name) {
            return unhex(text(name));
        }

        public long integer(String name) {
            return (Long) get(name);
        }

        public double number(String name) {
            return toDouble(get(name));
        }

        public Case inner(String name) {
            return new Case((Map<?, ?>) get(name));
        }

        public int[] integers(String name) {
            return ((List<?>) get(name)).stream().mapToInt(x -> ((Long) x).intValue()).toArray();
        }

        /** A list of numbers, or a list of such lists row after row. */
        public double[] numbers(String name) {
            return flat((List<?>) get(name)).toArray();
        }

        private static java.util.stream.DoubleStream flat(List<?> items) {
            return items.stream()
                    .flatMapToDouble(
                            x ->
                                    x instanceof List
                                            ? flat((List<?>) x)
                                            : java.util.stream.DoubleStream.of(toDouble(x)));
        }

        private static double toDouble(Object value) {
            // "NaN" and "Infinity" are texts, because JSON has no such numbers.
            return value instanceof String
                    ? Double.parseDouble((String) value)
                    : ((Number) value).doubleValue();
        }

        private static String nameOf(FedRapException.Kind kind) {
            StringBuilder out = new StringBuilder();
            for (String word : kind.name().split("_")) {
                out.append(word.charAt(0)).append(word.substring(1).toLowerCase());
            }
            return out.toString();
        }
    }
}
