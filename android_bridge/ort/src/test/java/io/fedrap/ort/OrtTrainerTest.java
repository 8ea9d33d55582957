package io.fedrap.ort;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fedrap.core.LocalTrainer;
import io.fedrap.core.TrainerContract;
import io.fedrap.core.Vectors;
import java.io.InputStream;
import java.nio.file.Files;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The real ONNX Runtime of this desktop, with the graph of the Python SDK. */
class OrtTrainerTest extends TrainerContract {
    private static OrtTrainer trainer;

    @BeforeAll
    static void open() {
        trainer = OrtTrainer.open();
    }

    @AfterAll
    static void close() {
        trainer.close();
    }

    @Override
    protected LocalTrainer trainer() {
        return trainer;
    }

    @Test
    void theGraphIsThatOfThePythonSdk() throws Exception {
        byte[] there = Files.readAllBytes(Vectors.root().resolve("sdk/fedrap/assets/solve_v1.onnx"));
        try (InputStream here = OrtTrainer.class.getResourceAsStream("solve_v1.onnx")) {
            assertNotNull(here);
            assertArrayEquals(there, here.readAllBytes());
        }
    }

    @Test
    void aVersionThatReportsIsOnlyTakenWhenItIsSilenced() {
        assertNull(Telemetry.refusal("1.28.0", null));
        assertNull(Telemetry.refusal("1.31.1", "1"));
        assertNull(Telemetry.refusal(null, "1"));
        for (String version : new String[] {"1.29.0", "1.31.1", "2.0.0", "odd", null}) {
            String why = Telemetry.refusal(version, version == null ? null : "0");
            assertTrue(why.contains("ORT_DISABLE_TELEMETRY=1"), why);
        }
    }

    @Test
    void itSaysWhatItIs() {
        assertEquals("onnx", trainer.name());
    }
}
