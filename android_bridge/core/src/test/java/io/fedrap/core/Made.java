package io.fedrap.core;

import java.util.Map;

/** Values of the core out of the vectors' JSON. */
final class Made {
    private Made() {}

    /** C as stored in a vector, version 1. */
    static SharedMatrix common(Vectors.Case stored) {
        double[] wide = stored.numbers("scales");
        float[] scales = new float[wide.length];
        for (int i = 0; i < wide.length; i++) {
            scales[i] = (float) wide[i];
        }
        double[] steps = stored.numbers("values");
        byte[] values = new byte[steps.length];
        for (int i = 0; i < steps.length; i++) {
            values[i] = (byte) steps[i];
        }
        return new SharedMatrix(1, new QuantizedRows(values, scales, (int) stored.integer("dim")));
    }

    /** A sequence part as stored in a vector. */
    static SequenceRows sequence(Vectors.Case stored) {
        return new SequenceRows(
                rows(stored, "output"),
                rows(stored, "offset"),
                floats(stored.numbers("bias")),
                floats(stored.numbers("kernels")));
    }

    private static QuantizedRows rows(Vectors.Case stored, String name) {
        double[] steps = stored.numbers(name + "_values");
        byte[] values = new byte[steps.length];
        for (int i = 0; i < steps.length; i++) {
            values[i] = (byte) steps[i];
        }
        float[] scales = floats(stored.numbers(name + "_scales"));
        return new QuantizedRows(values, scales, (int) stored.integer("dim"));
    }

    private static float[] floats(double[] wide) {
        float[] out = new float[wide.length];
        for (int i = 0; i < wide.length; i++) {
            out[i] = (float) wide[i];
        }
        return out;
    }

    /** A trend as stored in a vector. */
    static Trend trend(Vectors.Case stored) {
        double[] steps = stored.numbers("values");
        byte[] raw = java.util.Arrays.copyOf(
                Bytes.bytes(floats(new double[] {stored.number("scale")})), 4 + steps.length);
        for (int i = 0; i < steps.length; i++) {
            raw[4 + i] = (byte) steps[i];
        }
        return Trend.of(raw, steps.length);
    }

    static History history(Vectors.Case stored) {
        double[] times = stored.fields.containsKey("times") ? stored.numbers("times") : null;
        return new History(stored.integers("rows"), stored.numbers("weights"), times);
    }

    static Scoring scoring(Vectors.Case stored) {
        return Scoring.from(fields(stored.fields));
    }

    static SolveMethod method(Vectors.Case stored) {
        return new SolveMethod(fields(stored.fields));
    }

    static Privacy privacy(Vectors.Case stored) {
        return new Privacy(fields(stored.fields));
    }

    static Fields fields(Map<?, ?> map) {
        return Fields.ofValue(MsgPack.encode(map), 1 << 20);
    }

    /** Rows of items that were retired, where a case names any. */
    private static boolean[] gone(Vectors.Case one, int size) {
        boolean[] gone = new boolean[size];
        if (one.fields.containsKey("retired")) {
            for (int row : one.integers("retired")) {
                gone[row] = true;
            }
        }
        return gone;
    }

    static UserRepresentation representation(Vectors.Case one) {
        SharedMatrix common = common(one.inner("model"));
        return new UserRepresentation(
                common,
                common.gram(gone(one, common.size())),
                history(one.inner("history")).settled(),
                scoring(one.inner("scoring")));
    }
}
