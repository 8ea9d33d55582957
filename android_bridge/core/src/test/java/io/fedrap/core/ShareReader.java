package io.fedrap.core;

import java.util.Arrays;

/**
 * The update in a padded plaintext. A device never opens one: this is here to see that what it writes
 * can be read, and that what the coordinator refuses is what the vectors say.
 */
final class ShareReader {
    private ShareReader() {}

    static RowUpdate decode(byte[] raw, int dim) {
        if (raw.length < 4) {
            throw malformed("a share is longer than that");
        }
        long length = Integer.toUnsignedLong(LittleEndian.wrap(raw).getInt());
        if (length > raw.length || raw.length != RowUpdate.bucket(4 + (int) length)) {
            throw malformed("a share is not padded to its bucket");
        }
        byte[] body = Arrays.copyOfRange(raw, 4, 4 + (int) length);
        Fields f = Fields.ofMessage(body, Fields.MAX_BYTES, "share");
        if (f.bytes("rows").length % 4 != 0) {
            throw malformed("an array ends in the middle of a number");
        }
        int[] rows = LittleEndian.integers(f.bytes("rows"));
        int folded = RowUpdate.foldedRows(dim);
        double[] values = numbers(rows(f, "values", "scales", dim), rows.length);
        double[] triangle = numbers(rows(f, "triangle", "triangle_scales", dim), folded);
        triangle = Arrays.copyOf(triangle, dim * (dim + 1) / 2);
        return new RowUpdate(rows, values, triangle, dim, (int) f.integer("fits", -1, 1, 0));
    }

    static QuantizedRows rows(Fields f, String values, String scales, int dim) {
        return new QuantizedRows(f.bytes(values), LittleEndian.floats(f.bytes(scales)), dim);
    }

    private static double[] numbers(QuantizedRows rows, int count) {
        if (rows.size() != count || rows.values.length != count * rows.dim) {
            throw new FedRapException(FedRapException.Kind.WRONG_SHAPE, "other rows than expected");
        }
        double[] out = new double[count * rows.dim];
        for (int row = 0; row < count; row++) {
            rows.read(row, out, row * rows.dim);
        }
        return out;
    }

    private static FedRapException malformed(String why) {
        return new FedRapException(FedRapException.Kind.MALFORMED_MESSAGE, why);
    }
}
