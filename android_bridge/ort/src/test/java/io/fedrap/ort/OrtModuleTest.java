package io.fedrap.ort;

import io.fedrap.core.ModuleShape;
import org.junit.jupiter.api.Test;

/** What ort shows and needs. */
class OrtModuleTest {
    @Test
    void theApiIsAsCommitted() throws Exception {
        ModuleShape.assertApiIsAsCommitted();
    }

    @Test
    void itNeedsCoreAndTheRuntimeAlone() {
        ModuleShape.assertNeedsOnly(
                "io.fedrap", "ai.onnxruntime", "java.io", "java.lang", "java.nio", "java.util");
    }
}
