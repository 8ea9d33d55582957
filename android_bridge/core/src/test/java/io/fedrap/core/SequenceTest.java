package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The sequence part, by the vectors that Python wrote; {@link TrainerContract} has those of shares. */
class SequenceTest {
    @TestFactory
    Stream<DynamicTest> shareParts() {
        return Vectors.each(
                "share_parts",
                one -> {
                    SolveMethod method = Made.method(one.inner("method"));
                    byte[] raw = one.bytes("bytes");
                    int size = (int) one.integer("size");
                    if (!one.valid()) {
                        one.refuses(() -> ShareReader.decode(raw, method, size));
                        return;
                    }
                    List<?> stored = (List<?>) one.get("parts");
                    RowPart[] parts = new RowPart[3];
                    String[] names = {"inputs", "outputs", "kernels"};
                    for (int i = 0; i < 3; i++) {
                        Vectors.Case part = new Vectors.Case((Map<?, ?>) stored.get(i));
                        int width = method.sequence.dim + (i == 1 ? 1 : 0);
                        int[] rows = i == 2 ? null : part.integers("rows");
                        parts[i] = new RowPart(names[i], rows, part.numbers("values"), width);
                    }
                    RowUpdate update =
                            new RowUpdate(
                                    one.integers("rows"),
                                    one.numbers("values"),
                                    one.numbers("triangle"),
                                    method.dim,
                                    0,
                                    parts);
                    assertEquals(one.numbers("uniform").length, update.uniformCount());
                    byte[] made = update.encode(one.numbers("uniform"));
                    assertEquals(Vectors.hex(raw), Vectors.hex(made));
                    RowUpdate back = ShareReader.decode(raw, method, size);
                    List<?> decoded = (List<?>) one.get("decoded");
                    for (int i = 0; i < 3; i++) {
                        Map<String, Object> wrapped = new HashMap<>();
                        wrapped.put("numbers", decoded.get(i));
                        assertArrayEquals(
                                new Vectors.Case(wrapped).numbers("numbers"), back.parts[i].values);
                    }
                });
    }

    @TestFactory
    Stream<DynamicTest> releases() {
        return Vectors.each(
                "sequence_release",
                one -> {
                    byte[] raw = one.bytes("bytes");
                    if (!one.valid()) {
                        one.refuses(() -> read(one, raw));
                        return;
                    }
                    SharedMatrix found = read(one, raw);
                    SequenceRows part = Made.sequence(one.inner("sequence"));
                    byte[] hash = SharedMatrix.hash(Made.common(one.inner("items")).items, part, null);
                    assertEquals(one.text("hash"), Vectors.hex(hash));
                    assertNotNull(found.sequence);
                    assertArrayEquals(part.outputs.values, found.sequence.outputs.values);
                    assertArrayEquals(part.outputs.scales, found.sequence.outputs.scales);
                    assertArrayEquals(part.offsets.values, found.sequence.offsets.values);
                    assertArrayEquals(part.offsets.scales, found.sequence.offsets.scales);
                    assertArrayEquals(part.bias, found.sequence.bias);
                    assertArrayEquals(part.kernels, found.sequence.kernels);
                });
    }

    private static SharedMatrix read(Vectors.Case one, byte[] raw) {
        if (!one.fields.containsKey("old")) {
            return SharedMatrix.of(ReleaseMessage.decode(raw, 1 << 20));
        }
        Vectors.Case old = one.inner("old");
        QuantizedRows items = Made.common(old.inner("items")).items;
        SharedMatrix held = new SharedMatrix(1, items, Made.sequence(old.inner("sequence")), null);
        return held.apply(ReleaseMessage.decode(raw, 1 << 20));
    }

    @TestFactory
    Stream<DynamicTest> rankings() {
        return Vectors.each(
                "sequence_ranking",
                one -> {
                    QuantizedRows items = Made.common(one.inner("model")).items;
                    SharedMatrix common =
                            new SharedMatrix(1, items, Made.sequence(one.inner("sequence")), null);
                    Scoring scoring = Made.scoring(one.inner("scoring"));
                    History history = Made.history(one.inner("history"));
                    UserRepresentation mine =
                            new UserRepresentation(common, common.gram(null), history, scoring);
                    SequenceUser part =
                            new SequenceUser(common.sequence, history, scoring.sequence, null);
                    boolean[] allowed = new boolean[common.size()];
                    Arrays.fill(allowed, true);
                    for (int row : one.integers("hidden")) {
                        allowed[row] = false;
                    }
                    Ranking found =
                            Ranking.of(common, mine, part, (int) one.integer("n"), allowed);
                    assertArrayEquals(one.integers("rows"), found.rows);
                    Vectors.close(one.numbers("shared"), found.shared);
                    Vectors.close(one.numbers("personal"), found.personal);
                    Vectors.close(one.numbers("sequence_parts"), found.sequence);
                    Vectors.close(one.numbers("popularity"), found.popularity);
                    Ranking why = Ranking.explain(common, mine, part, found.rows[0]);
                    assertArrayEquals(one.integers("reason_items"), why.rows);
                    Vectors.close(one.numbers("reason_shared"), why.shared);
                    Vectors.close(one.numbers("reason_personal"), why.personal);
                    Vectors.close(one.numbers("reason_sequence"), why.sequence);
                    Vectors.close(one.number("reason_popularity"), why.popularity[0]);
                });
    }

    @Test
    void aPlanThatWouldTakeAllMemoryIsRefused() {
        Map<String, Object> fields = new HashMap<>();
        fields.put("targets", 5000);
        fields.put("longest", 5000);
        FedRapException error =
                assertThrows(
                        FedRapException.class, () -> new SequenceMethod(Made.fields(fields)));
        assertEquals(FedRapException.Kind.MALFORMED_MESSAGE, error.kind());
    }
}
