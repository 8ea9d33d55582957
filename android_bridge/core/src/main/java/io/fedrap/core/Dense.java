package io.fedrap.core;

/** The few lines of dense algebra that `solve` needs, in float64, row after row. */
final class Dense {
    private Dense() {}

    /**
     * x of A x = b by elimination with partial pivots; A (n·n) and b (n) stay as they are.
     *
     * @throws FedRapException BROKEN_MODEL where there is no finite x
     */
    static double[] solve(double[] matrix, double[] right) {
        int n = right.length;
        double[] a = matrix.clone();
        double[] x = right.clone();
        for (int column = 0; column < n; column++) {
            int pivot = column;
            for (int row = column + 1; row < n; row++) {
                if (Math.abs(a[row * n + column]) > Math.abs(a[pivot * n + column])) {
                    pivot = row;
                }
            }
            if (a[pivot * n + column] == 0) {
                throw FedRapException.broken("C gives a singular system; refuse this release");
            }
            if (pivot != column) {
                swapRows(a, x, pivot, column, n);
            }
            for (int row = column + 1; row < n; row++) {
                double factor = a[row * n + column] / a[column * n + column];
                if (factor != 0) {
                    for (int i = column + 1; i < n; i++) {
                        a[row * n + i] -= factor * a[column * n + i];
                    }
                    x[row] -= factor * x[column];
                }
            }
        }
        for (int row = n - 1; row >= 0; row--) {
            double rest = x[row];
            for (int i = row + 1; i < n; i++) {
                rest -= a[row * n + i] * x[i];
            }
            x[row] = rest / a[row * n + row];
            if (!(Math.abs(x[row]) <= Double.MAX_VALUE)) { // also for NaN
                throw FedRapException.broken("C gives a solution that is not finite; refuse this release");
            }
        }
        return x;
    }

    private static void swapRows(double[] a, double[] x, int one, int other, int n) {
        for (int i = 0; i < n; i++) {
            double kept = a[one * n + i];
            a[one * n + i] = a[other * n + i];
            a[other * n + i] = kept;
        }
        double kept = x[one];
        x[one] = x[other];
        x[other] = kept;
    }

    /** Adds weight·v v' to the upper triangle of a (k·k); v is a row of {@code rows}. */
    static void addSquare(double[] square, double[] rows, int at, int dim, double weight) {
        for (int a = 0; a < dim; a++) {
            double left = weight * rows[at + a];
            for (int b = a; b < dim; b++) {
                square[a * dim + b] += left * rows[at + b];
            }
        }
    }

    /** Copies the upper triangle of a (k·k) to the lower one. */
    static void mirror(double[] square, int dim) {
        for (int a = 0; a < dim; a++) {
            for (int b = a + 1; b < dim; b++) {
                square[b * dim + a] = square[a * dim + b];
            }
        }
    }

    /** w0·C'C + lambda·I: the part of the system that is the same for every user of a release. */
    static double[] baseSystem(double[] gram, int dim, double w0, double ridge) {
        double[] base = new double[dim * dim];
        for (int i = 0; i < base.length; i++) {
            base[i] = w0 * gram[i] + (i % (dim + 1) == 0 ? ridge : 0.0);
        }
        return base;
    }

    /** The product of a row of one matrix with a row of another; four sums wait less than one. */
    static double dot(double[] left, int at, double[] right, int from, int length) {
        double a = 0;
        double b = 0;
        double c = 0;
        double d = 0;
        int i = 0;
        for (; i + 3 < length; i += 4) {
            a += left[at + i] * right[from + i];
            b += left[at + i + 1] * right[from + i + 1];
            c += left[at + i + 2] * right[from + i + 2];
            d += left[at + i + 3] * right[from + i + 3];
        }
        for (; i < length; i++) {
            a += left[at + i] * right[from + i];
        }
        return (a + b) + (c + d);
    }
}
