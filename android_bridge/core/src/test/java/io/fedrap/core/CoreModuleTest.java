package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

/** What core shows and needs. */
class CoreModuleTest {
    @Test
    void theApiIsAsCommitted() throws Exception {
        ModuleShape.assertApiIsAsCommitted();
    }

    /** Whoever reads a stack trace of an app finds the line. */
    @Test
    void stackTracesNameFilesAndLines() {
        Exception error = assertThrows(IllegalArgumentException.class, () -> new Interaction(""));
        StackTraceElement first = error.getStackTrace()[0];
        assertEquals("Arguments.java", first.getFileName());
        assertTrue(first.getLineNumber() > 1);
    }

    /** An object that is logged by chance says what it is, and nothing of the user. */
    @Test
    void everyValueHasItsOwnText() throws Exception {
        int seen = 0;
        for (String line : Files.readAllLines(Paths.get("api.txt"))) {
            boolean made = line.startsWith("public final class") && !line.contains("Exception");
            if (made) {
                Class<?> one = Class.forName(line.split(" ")[3]);
                boolean values =
                        Arrays.stream(one.getDeclaredFields())
                                .anyMatch(f -> !Modifier.isStatic(f.getModifiers()));
                if (values) {
                    assertEquals(
                            one, one.getMethod("toString").getDeclaringClass());
                    seen++;
                }
            }
        }
        assertTrue(seen > 20, seen + " classes");
    }

    /** Nothing but itself and what both the JDK and Android have; the members are checked at build. */
    @Test
    void itNeedsNothingButTheJdk() {
        ModuleShape.assertNeedsOnly(
                "io.fedrap.core",
                "java.io",
                "java.lang",
                "java.math",
                "java.net",
                "java.nio",
                "java.security",
                "java.time",
                "java.util",
                "javax.crypto",
                "javax.net",
                "org.jspecify"); // annotations: nothing at run time
    }
}
