package io.fedrap.core;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * How long a trainer takes, for benchmarks/android: {@code TrainerTimes jvm|onnx CASES SECONDS ANSWERS}.
 *
 * <p>Reads the problems that Python wrote, prints JSON, and writes the answers for Python to compare.
 */
public final class TrainerTimes {
    private TrainerTimes() {}

    public static void main(String[] args) throws Exception {
        List<List<ShareProblem>> cases = read(new File(args[1]));
        long before = System.nanoTime();
        LocalTrainer trainer = trainer(args[0]);
        double opened = (System.nanoTime() - before) / 1e6;
        double seconds = Double.parseDouble(args[2]);
        List<String> times = new ArrayList<>();
        try (PrintWriter answers = new PrintWriter(args[3], "UTF-8")) {
            for (List<ShareProblem> problems : cases) {
                times.add(measure(trainer, problems, seconds, answers));
            }
        }
        System.out.println(
                "{\"open_ms\": " + opened + ", \"cases\": [" + String.join(", ", times) + "]}");
        if (trainer instanceof AutoCloseable) {
            ((AutoCloseable) trainer).close();
        }
    }

    private static LocalTrainer trainer(String name) throws Exception {
        if (name.equals("jvm")) {
            return new JvmTrainer();
        }
        Class<?> other = Class.forName("io.fedrap.ort.OrtTrainer"); // of a module above this one
        return (LocalTrainer) other.getMethod("open").invoke(null);
    }

    private static String measure(
            LocalTrainer trainer, List<ShareProblem> problems, double seconds, PrintWriter answers) {
        long start = System.nanoTime();
        List<LocalShare> shares = trainer.solve(problems);
        double first = (System.nanoTime() - start) / 1e3;
        for (LocalShare share : shares) {
            StringBuilder line = new StringBuilder();
            for (double x : share.user) {
                line.append(x).append(' ');
            }
            answers.println(line.toString().trim());
        }
        long end = System.nanoTime() + (long) (seconds * 1e9);
        while (System.nanoTime() < end) { // warm: the compiler has seen it
            trainer.solve(problems);
        }
        List<Double> took = new ArrayList<>();
        end = System.nanoTime() + (long) (seconds * 1e9);
        while (took.size() < 5 || System.nanoTime() < end) {
            long at = System.nanoTime();
            trainer.solve(problems);
            took.add((System.nanoTime() - at) / 1e3);
        }
        double[] sorted = took.stream().mapToDouble(x -> x).sorted().toArray();
        return String.format(
                java.util.Locale.ROOT,
                "{\"first_us\": %.1f, \"min_us\": %.2f, \"median_us\": %.2f, \"runs\": %d}",
                first, sorted[0], sorted[sorted.length / 2], sorted.length);
    }

    /** Cases until the end: k, problems, G, and for each its n, rows and weights; big-endian. */
    private static List<List<ShareProblem>> read(File file) throws IOException {
        List<List<ShareProblem>> cases = new ArrayList<>();
        try (DataInputStream in =
                new DataInputStream(new BufferedInputStream(Files.newInputStream(file.toPath())))) {
            while (true) {
                int dim = in.readInt();
                if (dim == 0) {
                    return cases;
                }
                ShareProblem[] problems = new ShareProblem[in.readInt()];
                double[] base = numbers(in, dim * dim);
                for (int i = 0; i < problems.length; i++) {
                    int count = in.readInt();
                    double[] own = numbers(in, count * dim);
                    problems[i] = new ShareProblem(own, 0, numbers(in, count), base, dim);
                }
                cases.add(Arrays.asList(problems));
            }
        }
    }

    private static double[] numbers(DataInputStream in, int count) throws IOException {
        double[] out = new double[count];
        for (int i = 0; i < count; i++) {
            out[i] = in.readDouble();
        }
        return out;
    }
}
