package io.fedrap.core;

import org.junit.jupiter.api.Test;

/** What measure shows and needs. */
class MeasureModuleTest {
    @Test
    void theApiIsAsCommitted() throws Exception {
        ModuleShape.assertApiIsAsCommitted();
    }

    @Test
    void itNeedsCoreAndTheJdkAlone() {
        ModuleShape.assertNeedsOnly("io.fedrap.core", "java.lang", "java.nio", "java.util");
    }
}
