package io.fedrap.core;

/** One more part of an update, beside the rows and the Gram matrix of C. */
final class RowPart {
    final String name; // inputs, outputs, kernels or lately
    final int[] rows; // ascending, distinct; null where all rows come, so that none is named
    final double[] values; // (n·width)
    final int width; // numbers in a row

    RowPart(String name, int[] rows, double[] values, int width) {
        this.name = name;
        this.rows = rows;
        this.values = values;
        this.width = width;
    }

    RowPart with(double[] numbers) {
        return new RowPart(name, rows, numbers, width);
    }
}
