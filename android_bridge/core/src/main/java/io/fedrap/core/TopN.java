package io.fedrap.core;

/**
 * The n best of a stream of rows, in memory of n: offered in ascending order of row, best first at the
 * end, equal scores in order of row. What is NaN or minus infinity is never among them.
 */
final class TopN {
    private final int[] rows; // a heap with the worst on top
    private final double[] scores;
    private int count;

    TopN(int n) {
        rows = new int[Math.max(0, n)];
        scores = new double[rows.length];
    }

    /** The rows of the n largest of these scores. */
    static int[] best(float[] scores, int n) {
        TopN top = new TopN(Math.min(n, scores.length));
        for (int row = 0; row < scores.length; row++) {
            top.offer(row, scores[row]);
        }
        return top.rows();
    }

    void offer(int row, double score) {
        if (count < rows.length) {
            if (score > Double.NEGATIVE_INFINITY) {
                put(count++, row, score);
                rise(count - 1);
            }
        } else if (count > 0 && score > scores[0]) { // at a tie the earlier row stays
            put(0, row, score);
            sink();
        }
    }

    /** The rows, best first; empties this. */
    int[] rows() {
        int[] out = new int[count];
        while (count > 0) {
            out[count - 1] = rows[0];
            count--;
            put(0, rows[count], scores[count]);
            sink();
        }
        return out;
    }

    private void rise(int place) {
        while (place > 0 && worse(place, (place - 1) / 2)) {
            swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    private void sink() {
        int place = 0;
        while (true) {
            int child = 2 * place + 1;
            if (child >= count) {
                return;
            }
            if (child + 1 < count && worse(child + 1, child)) {
                child++;
            }
            if (!worse(child, place)) {
                return;
            }
            swap(child, place);
            place = child;
        }
    }

    private boolean worse(int one, int other) {
        return scores[one] < scores[other]
                || scores[one] == scores[other] && rows[one] > rows[other];
    }

    private void swap(int one, int other) {
        int row = rows[one];
        double score = scores[one];
        put(one, rows[other], scores[other]);
        put(other, row, score);
    }

    private void put(int place, int row, double score) {
        rows[place] = row;
        scores[place] = score;
    }
}
