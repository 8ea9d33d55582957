package io.fedrap.core;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.File;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;

/**
 * How long a list takes, for benchmarks/android: {@code RankingTimes CASE SECONDS}.
 *
 * <p>Reads a C and a history that Python wrote, and prints JSON with the rows that were found.
 */
public final class RankingTimes {
    private RankingTimes() {}

    public static void main(String[] args) throws Exception {
        SharedMatrix common;
        int[] rows;
        try (DataInputStream in =
                new DataInputStream(
                        new BufferedInputStream(
                                Files.newInputStream(new File(args[0]).toPath())))) {
            float[] scales = new float[in.readInt()];
            byte[] values = new byte[scales.length * in.readInt()];
            rows = new int[in.readInt()];
            in.readFully(values);
            for (int i = 0; i < scales.length; i++) {
                scales[i] = in.readFloat();
            }
            for (int i = 0; i < rows.length; i++) {
                rows[i] = in.readInt();
            }
            int dim = values.length / scales.length;
            common = new SharedMatrix(1, new QuantizedRows(values, scales, dim));
        }
        double[] weights = new double[rows.length];
        Arrays.fill(weights, 1.0);
        boolean[] allowed = new boolean[common.size()];
        Arrays.fill(allowed, true);
        for (int row : rows) {
            allowed[row] = false;
        }
        byte[] plain = MsgPack.encode(Collections.singletonMap("name", "solve"));
        Scoring scoring = Scoring.from(Fields.ofValue(plain, 100));
        double[] gram = common.gram(null);
        History history = new History(rows, weights);
        UserRepresentation representation = new UserRepresentation(common, gram, history, scoring);
        int[] best = Ranking.of(common, representation, null, 20, allowed).rows;
        double seconds = Double.parseDouble(args[1]);
        double solve = quickest(() -> new UserRepresentation(common, gram, history, scoring), seconds);
        double list = quickest(() -> Ranking.of(common, representation, null, 20, allowed), seconds);
        System.out.printf(
                Locale.ROOT,
                "{\"taste_us\": %.1f, \"list_us\": %.1f, \"rows\": %s}%n",
                solve, list, Arrays.toString(best));
    }

    private static double quickest(Runnable work, double seconds) {
        List<Long> took = new ArrayList<>();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        while (took.size() < 5 || System.nanoTime() < end) {
            long start = System.nanoTime();
            work.run();
            took.add(System.nanoTime() - start);
        }
        return took.stream().mapToLong(x -> x).min().getAsLong() / 1e3;
    }
}
