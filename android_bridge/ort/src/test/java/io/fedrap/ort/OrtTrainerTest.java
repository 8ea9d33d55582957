package io.fedrap.ort;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.onnxruntime.OrtProvider;
import io.fedrap.core.LocalTrainer;
import io.fedrap.core.TrainerContract;
import io.fedrap.core.Vectors;
import java.io.InputStream;
import java.nio.file.Files;
import java.util.EnumSet;
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
    void theGraphsAreThoseOfThePythonSdk() throws Exception {
        for (String name : new String[] {"solve_v1.onnx", "sequence_v1.onnx"}) {
            byte[] there = Files.readAllBytes(Vectors.root().resolve("sdk/fedrap/assets/" + name));
            try (InputStream here = OrtTrainer.class.getResourceAsStream(name)) {
                assertNotNull(here);
                assertArrayEquals(there, here.readAllBytes());
            }
        }
    }

    @Test
    void anAcceleratorIsTakenWhereItIsThereAndTheWorkIsWorthIt() {
        long large = SequenceGraph.WORTH_AN_ACCELERATOR;
        EnumSet<OrtProvider> phone = EnumSet.of(OrtProvider.CPU, OrtProvider.NNAPI, OrtProvider.XNNPACK);
        EnumSet<OrtProvider> desktop = EnumSet.of(OrtProvider.CPU, OrtProvider.CUDA);
        assertEquals(OrtProvider.NNAPI, SequenceGraph.pick(phone, large));
        assertEquals(OrtProvider.CUDA, SequenceGraph.pick(desktop, large));
        assertEquals(OrtProvider.CPU, SequenceGraph.pick(desktop, large - 1));
        assertEquals(OrtProvider.CPU, SequenceGraph.pick(EnumSet.of(OrtProvider.CPU), large));
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
