package io.fedrap.core;

/** Inside a release or a delta: the sequence part. A release has all rows and names none. */
final class SequenceBody {
    private static final int MOST_KERNELS = 4 * 512 * 16; // bytes

    final int dim; // k of this part
    final byte[] kernels; // f32 little-endian, S·k
    final byte[] outputRows; // u32 little-endian, ascending
    final byte[] outputScales; // f32 little-endian, one per row
    final byte[] outputBitmap;
    final byte[] outputValues; // i8
    final byte[] bias; // f32 little-endian, one per row of the outputs
    final byte[] offsetRows;
    final byte[] offsetScales;
    final byte[] offsetBitmap;
    final byte[] offsetValues;

    private SequenceBody(Fields f) {
        byte[] none = new byte[0];
        dim = (int) f.integer("dim", 1, 512);
        kernels = f.bytes("kernels", 0, MOST_KERNELS);
        outputRows = f.bytes("output_rows", 0, Integer.MAX_VALUE, none);
        outputScales = f.bytes("output_scales");
        outputBitmap = f.bytes("output_bitmap");
        outputValues = f.bytes("output_values");
        bias = f.bytes("bias");
        offsetRows = f.bytes("offset_rows", 0, Integer.MAX_VALUE, none);
        offsetScales = f.bytes("offset_scales");
        offsetBitmap = f.bytes("offset_bitmap");
        offsetValues = f.bytes("offset_values");
    }

    /** The one in a message; null where it has none. */
    static SequenceBody in(Fields message) {
        return message.asMap().containsKey("sequence")
                ? new SequenceBody(message.inner("sequence"))
                : null;
    }
}
