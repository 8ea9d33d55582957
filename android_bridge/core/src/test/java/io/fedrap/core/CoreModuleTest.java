package io.fedrap.core;

import org.junit.jupiter.api.Test;

/** What core shows and needs. */
class CoreModuleTest {
    @Test
    void theApiIsAsCommitted() throws Exception {
        ModuleShape.assertApiIsAsCommitted();
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
