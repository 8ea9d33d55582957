package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** quantize, share, release and delta: all bit for bit. */
class ArraysTest {
    @TestFactory
    Stream<DynamicTest> quantize() {
        return Vectors.each(
                "quantize",
                one -> {
                    double[] rows = one.numbers("rows");
                    int count = ((java.util.List<?>) one.get("rows")).size();
                    double[] uniform = one.get("uniform") == null ? null : one.numbers("uniform");
                    if (!one.valid()) {
                        one.refuses(() -> QuantizedRows.of(rows, rows.length / count, uniform));
                        return;
                    }
                    QuantizedRows made = QuantizedRows.of(rows, rows.length / count, uniform);
                    double[] scales = one.numbers("scales");
                    for (int i = 0; i < count; i++) {
                        assertEquals((float) scales[i], made.scales[i]);
                    }
                    double[] values = one.numbers("values");
                    for (int i = 0; i < values.length; i++) {
                        assertEquals((int) values[i], made.values[i]);
                    }
                });
    }

    @TestFactory
    Stream<DynamicTest> share() {
        return Vectors.each(
                "share",
                one -> {
                    byte[] raw = one.bytes("bytes");
                    int dim = (int) one.integer("dim");
                    if (!one.valid()) {
                        one.refuses(() -> ShareReader.decode(raw, dim));
                        return;
                    }
                    RowUpdate update =
                            new RowUpdate(
                                    one.integers("rows"),
                                    one.numbers("values"),
                                    one.numbers("triangle"),
                                    dim,
                                    0);
                    double[] uniform = one.numbers("uniform");
                    assertEquals(update.uniformCount(), uniform.length);
                    assertEquals(Vectors.hex(raw), Vectors.hex(update.encode(uniform)));
                    RowUpdate back = ShareReader.decode(raw, dim);
                    assertArrayEquals(update.rows, back.rows);
                    assertArrayEquals(one.numbers("decoded_values"), back.values);
                    assertArrayEquals(one.numbers("decoded_triangle"), back.gram);
                });
    }

    @TestFactory
    Stream<DynamicTest> release() {
        return Vectors.each(
                "release",
                one -> {
                    ReleaseMessage release = ReleaseMessage.decode(one.bytes("bytes"), 1 << 20);
                    assertEquals(one.text("hash"), Vectors.hex(release.model));
                    if (!one.valid()) {
                        one.refuses(() -> SharedMatrix.of(release));
                        return;
                    }
                    same(Made.common(one.inner("items")), SharedMatrix.of(release));
                    assertEquals(one.integer("version"), SharedMatrix.of(release).version);
                });
    }

    @TestFactory
    Stream<DynamicTest> delta() {
        return Vectors.each(
                "delta",
                one -> {
                    SharedMatrix old = Made.common(one.inner("old"));
                    byte[] before = SharedMatrix.hash(old.items);
                    ReleaseMessage delta = ReleaseMessage.decode(one.bytes("bytes"), 1 << 20);
                    if (!one.valid()) {
                        one.refuses(() -> old.apply(delta));
                        return;
                    }
                    SharedMatrix made = old.apply(delta);
                    same(Made.common(one.inner("new")), made);
                    assertEquals(2, made.version);
                    assertEquals(one.text("hash"), Vectors.hex(SharedMatrix.hash(made.items)));
                    assertArrayEquals(before, SharedMatrix.hash(old.items), "the old C changed");
                });
    }

    @Test
    void withheldRowsAreNotServed() {
        assertArrayEquals(new boolean[] {true, true}, SharedMatrix.servedRows(new byte[0], 2));
        boolean[] served = SharedMatrix.servedRows(new byte[] {(byte) 0x81, 0x02}, 10);
        for (int row = 0; row < 10; row++) {
            assertEquals(row != 0 && row != 7 && row != 9, served[row], "row " + row);
        }
        FedRapException error =
                assertThrows(
                        FedRapException.class, () -> SharedMatrix.servedRows(new byte[1], 10));
        assertEquals(FedRapException.Kind.BROKEN_MODEL, error.kind());
    }

    @Test
    void bucketsGrowByHalves() {
        int[][] known = {{1, 512}, {512, 512}, {513, 768}, {769, 1024}, {1025, 1536}, {1537, 2048}};
        for (int[] one : known) {
            assertEquals(one[1], RowUpdate.bucket(one[0]));
        }
        assertTrue(RowUpdate.pad(new byte[600]).length == 768);
    }

    private static void same(SharedMatrix expected, SharedMatrix actual) {
        assertArrayEquals(expected.items.values, actual.items.values);
        assertArrayEquals(expected.items.scales, actual.items.scales);
        assertEquals(expected.dim(), actual.dim());
    }
}
