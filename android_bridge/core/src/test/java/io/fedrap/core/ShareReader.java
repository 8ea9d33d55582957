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
        Share share =
                new Share(
                        f.bytes("rows"),
                        f.bytes("scales"),
                        f.bytes("values"),
                        f.bytes("triangle_scales"),
                        f.bytes("triangle"),
                        f.integer("fits", -1, 1, 0));
        if (share.rows.length % 4 != 0) {
            throw malformed("an array ends in the middle of a number");
        }
        int[] rows = LittleEndian.integers(share.rows);
        double[] values = dequantized(share.values, share.scales, rows.length, dim);
        int folded = RowUpdate.foldedRows(dim);
        double[] triangle = dequantized(share.triangle, share.triangleScales, folded, dim);
        triangle = Arrays.copyOf(triangle, dim * (dim + 1) / 2);
        return new RowUpdate(rows, values, triangle, dim, (int) share.fits);
    }

    private static double[] dequantized(byte[] values, byte[] scales, int count, int dim) {
        if (values.length != count * dim || scales.length != 4 * count) {
            throw new FedRapException(FedRapException.Kind.WRONG_SHAPE, "other rows than expected");
        }
        QuantizedRows rows = new QuantizedRows(values, LittleEndian.floats(scales), dim);
        double[] out = new double[count * dim];
        for (int row = 0; row < count; row++) {
            rows.read(row, out, row * dim);
        }
        return out;
    }

    private static FedRapException malformed(String why) {
        return new FedRapException(FedRapException.Kind.MALFORMED_MESSAGE, why);
    }
}
