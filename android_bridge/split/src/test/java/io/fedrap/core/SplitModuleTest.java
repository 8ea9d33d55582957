package io.fedrap.core;

import org.junit.jupiter.api.Test;

/** What split shows and needs. */
class SplitModuleTest {
    @Test
    void theApiIsAsCommitted() throws Exception {
        ModuleShape.assertApiIsAsCommitted();
    }

    @Test
    void itNeedsCoreAndTheJdkAlone() {
        ModuleShape.assertNeedsOnly("io.fedrap.core", "java.lang", "java.nio", "java.security", "java.util", "javax.crypto");
    }
}
