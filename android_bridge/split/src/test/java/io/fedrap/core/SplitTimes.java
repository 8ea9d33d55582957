package io.fedrap.core;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Locale;
import java.util.Random;

/**
 * How long a report takes a device, for benchmarks/bench_split.py: {@code SplitTimes ITEMS K ROWS}. CPU
 * milliseconds of the quickest, once the JVM is warm, and of the first.
 */
public final class SplitTimes {
    private SplitTimes() {}

    public static void main(String[] args) {
        int items = Integer.parseInt(args[0]);
        int dim = Integer.parseInt(args[1]);
        int count = Integer.parseInt(args[2]);
        byte[] raw =
                MsgPack.encode(
                        Export.map(
                                "method", Export.map("name", "solve", "dim", dim),
                                "privacy", Export.map("clip", 6.0, "noise", 1.0),
                                "split", Export.map("rows", count)));
        Terms terms = new Terms(new byte[16], Plan.decode(raw), items);
        Random random = new Random(0);
        int[] rows = random.ints(0, items).distinct().limit(count).sorted().toArray();
        double[] values = random.doubles(count * dim).map(x -> x - 0.5).toArray();
        double[] gram = random.doubles(dim * (dim + 1) / 2).map(x -> 0.1 * (x - 0.5)).toArray();
        RowUpdate update = new RowUpdate(rows, values, gram, dim, 0);
        double[] uniform = random.doubles(SmallNumbers.uniformCount(terms)).toArray();
        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        double first = 0;
        double least = Double.POSITIVE_INFINITY;
        int bytes = 0;
        for (int i = 0; i < 30; i++) {
            long start = clock.getCurrentThreadCpuTime();
            Report made = new Report(terms, SmallNumbers.of(update, terms, uniform), new byte[32]);
            double took = (clock.getCurrentThreadCpuTime() - start) / 1e6;
            first = i == 0 ? took : first;
            least = Math.min(least, took);
            bytes = made.open.length + made.leader.length;
        }
        System.out.printf(
                Locale.ROOT, "{\"java_ms\": %.1f, \"java_first_ms\": %.1f, \"bytes\": %d}%n", least, first, bytes);
    }
}
