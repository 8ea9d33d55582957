package io.fedrap.core;

import org.junit.jupiter.api.Test;

/** What core shows and needs. */
class CoreModuleTest {
    @Test
    void theApiIsAsCommitted() throws Exception {
        ModuleShape.assertApiIsAsCommitted();
    }

    /** An object that is logged by chance says what it is, and nothing of the user. */
    @Test
    void everyValueHasItsOwnText() throws Exception {
        int seen = 0;
        for (String line : java.nio.file.Files.readAllLines(java.nio.file.Paths.get("api.txt"))) {
            boolean made = line.startsWith("public final class") && !line.contains("Exception");
            if (made) {
                Class<?> one = Class.forName(line.split(" ")[3]);
                boolean values =
                        java.util.Arrays.stream(one.getDeclaredFields())
                                .anyMatch(f -> !java.lang.reflect.Modifier.isStatic(f.getModifiers()));
                if (values) {
                    org.junit.jupiter.api.Assertions.assertEquals(
                            one, one.getMethod("toString").getDeclaringClass());
                    seen++;
                }
            }
        }
        org.junit.jupiter.api.Assertions.assertTrue(seen > 20, seen + " classes");
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
