package io.fedrap.core;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/**
 * The update in a padded plaintext. A device never opens one: this is here to see that what it writes
 * can be read, and that what the coordinator refuses is what the vectors say.
 */
final class ShareReader {
    private ShareReader() {}

    static RowUpdate decode(byte[] raw, int dim) {
        return decode(body(raw), dim);
    }

    /** An update of a plan that may have more parts, for a catalogue of so many items. */
    static RowUpdate decode(byte[] raw, SolveMethod method, int size) {
        Fields f = body(raw);
        RowUpdate update = decode(f, method.dim);
        int wide = method.sequence.dim;
        int[] most = {size, size, method.sequence.kernels.count()};
        int[] widths = {wide, wide + 1, wide};
        String[] names = {"inputs", "outputs", "kernels"};
        List<?> came = f.has("parts") ? f.list("parts") : Collections.emptyList();
        if (came.size() != names.length) {
            throw wrong("a share has other parts than the plan");
        }
        RowPart[] parts = new RowPart[names.length];
        for (int i = 0; i < parts.length; i++) {
            Fields part = Made.fields((Map<?, ?>) came.get(i));
            if (!part.text("name", 1, 40).equals(names[i])) {
                throw wrong("a share has other parts than the plan");
            }
            byte[] named = part.bytes("rows");
            if (named.length % 4 != 0) {
                throw malformed("an array ends in the middle of a number");
            }
            int count = i == 2 ? most[i] : named.length / 4;
            if (count > most[i] || i == 2 && named.length > 0) {
                throw wrong("more rows than the plan has");
            }
            int[] rows = i == 2 ? null : Bytes.integers(named);
            double[] values = numbers(rows(part, "values", "scales", widths[i]), count);
            parts[i] = new RowPart(names[i], rows, values, widths[i]);
        }
        return update.with(parts);
    }

    private static Fields body(byte[] raw) {
        if (raw.length < 4) {
            throw malformed("a share is longer than that");
        }
        long length = Integer.toUnsignedLong(Bytes.wrap(raw).getInt());
        if (length > raw.length || raw.length != RowUpdate.bucket(4 + (int) length)) {
            throw malformed("a share is not padded to its bucket");
        }
        byte[] body = Arrays.copyOfRange(raw, 4, 4 + (int) length);
        return Fields.ofMessage(body, Fields.MAX_BYTES, "share");
    }

    private static RowUpdate decode(Fields f, int dim) {
        if (f.bytes("rows").length % 4 != 0) {
            throw malformed("an array ends in the middle of a number");
        }
        int[] rows = Bytes.integers(f.bytes("rows"));
        int folded = RowUpdate.foldedRows(dim);
        double[] values = numbers(rows(f, "values", "scales", dim), rows.length);
        double[] triangle = numbers(rows(f, "triangle", "triangle_scales", dim), folded);
        triangle = Arrays.copyOf(triangle, dim * (dim + 1) / 2);
        return new RowUpdate(rows, values, triangle, dim, (int) f.integer("fits", -1, 1, 0));
    }

    static QuantizedRows rows(Fields f, String values, String scales, int dim) {
        return new QuantizedRows(f.bytes(values), Bytes.floats(f.bytes(scales)), dim);
    }

    private static double[] numbers(QuantizedRows rows, int count) {
        if (rows.size() != count || rows.values.length != count * rows.dim) {
            throw wrong("other rows than expected");
        }
        double[] out = new double[count * rows.dim];
        for (int row = 0; row < count; row++) {
            rows.read(row, out, row * rows.dim);
        }
        return out;
    }

    private static FedRapException wrong(String why) {
        return new FedRapException(FedRapException.Kind.WRONG_SHAPE, why);
    }

    private static FedRapException malformed(String why) {
        return new FedRapException(FedRapException.Kind.MALFORMED_MESSAGE, why);
    }
}
