package io.fedrap.core;

import java.security.MessageDigest;
import java.util.Arrays;

/** The sequence part of a release as a device holds it. Immutable. */
final class SequenceRows {
    private static final float LARGEST = 1e4f;

    final QuantizedRows outputs; // (m, k) C of the sequence part
    final QuantizedRows offsets; // (m, k) Delta
    final float[] bias; // (m) b
    final float[] kernels; // (S·k) a

    /**
     * The part from its numbers.
     *
     * @throws FedRapException BROKEN_MODEL: shapes disagree, or a number is huge or not finite
     */
    SequenceRows(QuantizedRows outputs, QuantizedRows offsets, float[] bias, float[] kernels) {
        SharedMatrix.check(outputs);
        SharedMatrix.check(offsets);
        int dim = outputs.dim;
        if (offsets.dim != dim || offsets.size() != outputs.size() || bias.length != outputs.size()) {
            throw FedRapException.broken("a sequence part whose rows have different shapes");
        }
        if (kernels.length == 0 || kernels.length % dim != 0) {
            throw FedRapException.broken("time kernels that do not have the dimension that is stated");
        }
        for (float[] part : new float[][] {bias, kernels}) {
            for (float number : part) {
                if (!(Math.abs(number) <= LARGEST)) { // also for NaN
                    throw FedRapException.broken("a bias or time kernel is huge or not finite");
                }
            }
        }
        this.outputs = outputs;
        this.offsets = offsets;
        this.bias = bias;
        this.kernels = kernels;
    }

    /** The part of a whole release of so many rows; throws BROKEN_MODEL. */
    static SequenceRows of(SequenceBody body, long size) {
        boolean named = body.outputRows.length > 0 || body.offsetRows.length > 0;
        if (named || body.bias.length != 4 * size) {
            throw FedRapException.broken("a release whose arrays do not have the size that it states");
        }
        return new SequenceRows(
                QuantizedRows.whole(
                        size, body.dim, body.outputScales, body.outputBitmap, body.outputValues),
                QuantizedRows.whole(
                        size, body.dim, body.offsetScales, body.offsetBitmap, body.offsetValues),
                Bytes.floats(body.bias),
                kernels(body));
    }

    /** This part with what a delta changes; throws BROKEN_MODEL. */
    SequenceRows apply(SequenceBody body, long size) {
        if (body.dim != dim()) {
            throw FedRapException.broken("a delta of a sequence part that this device does not hold");
        }
        QuantizedRows newOutputs =
                outputs.patched(
                        size, body.outputRows, body.outputScales, body.outputBitmap, body.outputValues);
        QuantizedRows newOffsets =
                offsets.patched(
                        size, body.offsetRows, body.offsetScales, body.offsetBitmap, body.offsetValues);
        if (body.bias.length != body.outputRows.length) { // four bytes for each row in both
            throw FedRapException.broken("a delta whose arrays do not fit each other");
        }
        float[] newBias = Arrays.copyOf(bias, (int) size);
        float[] changed = Bytes.floats(body.bias);
        int[] rows = Bytes.integers(body.outputRows);
        for (int i = 0; i < rows.length; i++) {
            newBias[rows[i]] = changed[i];
        }
        return new SequenceRows(newOutputs, newOffsets, newBias, kernels(body));
    }

    private static float[] kernels(SequenceBody body) {
        if (body.kernels.length == 0 || body.kernels.length % (4 * body.dim) != 0) {
            throw FedRapException.broken("time kernels that do not have the dimension that is stated");
        }
        return Bytes.floats(body.kernels);
    }

    /** All of it, after the hash of C. */
    void hash(MessageDigest digest) {
        digest.update(Bytes.bytes(new int[] {outputs.size(), dim(), kernelCount()}));
        for (QuantizedRows rows : new QuantizedRows[] {outputs, offsets}) {
            digest.update(Bytes.bytes(rows.scales));
            digest.update(rows.values);
        }
        digest.update(Bytes.bytes(bias));
        digest.update(Bytes.bytes(kernels));
    }

    int size() {
        return outputs.size();
    }

    int dim() {
        return outputs.dim;
    }

    /** S. */
    int kernelCount() {
        return kernels.length / dim();
    }

    /** C of some items: (n·k). */
    double[] take(int[] rows) {
        double[] out = new double[rows.length * dim()];
        for (int i = 0; i < rows.length; i++) {
            outputs.read(rows[i], out, i * dim());
        }
        return out;
    }

    /** P = C + Delta of some items: (n·k). */
    double[] inputs(int[] rows) {
        double[] out = take(rows);
        double[] offset = new double[dim()];
        for (int i = 0; i < rows.length; i++) {
            offsets.read(rows[i], offset, 0);
            for (int c = 0; c < dim(); c++) {
                out[i * dim() + c] += offset[c];
            }
        }
        return out;
    }
}
