package io.fedrap.ort;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtProvider;
import io.fedrap.core.FedRapException;
import io.fedrap.core.JvmTrainer;
import io.fedrap.core.LocalShare;
import io.fedrap.core.LocalTrainer;
import io.fedrap.core.SequenceAnswer;
import io.fedrap.core.SequenceProblem;
import io.fedrap.core.ShareProblem;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;

/**
 * Rounds in ONNX Runtime on the CPU, one thread, with the graph of the Python SDK.
 *
 * <p>The graph finds x by conjugate gradients and says how large its error may still be; a problem that
 * is not done after 64 steps is solved by the plain trainer instead.
 */
public final class OrtTrainer implements LocalTrainer, AutoCloseable {
    private static final int TOGETHER = 64; // problems in one run
    private static final int MOST_ROWS = 16_384; // in one run: beyond it no longer fits a cache

    private final SolveGraph graph;
    private final LocalTrainer plain = new JvmTrainer();
    private volatile Release known; // an immutable value: two threads at worst compute it twice
    private final Map<OrtProvider, SequenceGraph> sequences = new EnumMap<>(OrtProvider.class);

    private OrtTrainer(SolveGraph graph) {
        this.graph = graph;
    }

    /**
     * A trainer with a session of its own; keep it, a session takes tens of milliseconds.
     *
     * @throws FedRapException TRAINER_UNAVAILABLE where there is no ONNX Runtime for this platform, or
     *     its telemetry can't be turned off
     */
    public static OrtTrainer open() {
        Telemetry.silence(); // before any class of ONNX Runtime is initialised
        return new OrtTrainer(SolveGraph.open());
    }

    @Override
    public String name() {
        return "onnx";
    }

    @Override
    public List<LocalShare> solve(List<ShareProblem> problems) {
        LocalShare[] found = new LocalShare[problems.size()];
        for (List<Integer> places : chunks(problems)) {
            List<ShareProblem> some = new ArrayList<>();
            for (int place : places) {
                some.add(problems.get(place));
            }
            List<LocalShare> shares = together(some);
            for (int i = 0; i < shares.size(); i++) {
                found[places.get(i)] = shares.get(i);
            }
        }
        return Arrays.asList(found);
    }

    /**
     * The sequence part, in float32: on an accelerator that the runtime has where the work is worth it,
     * else on the CPU.
     */
    @Override
    public SequenceAnswer expect(SequenceProblem problem) {
        long work = (long) problem.size() * problem.dim() * problem.count();
        OrtProvider wanted = SequenceGraph.pick(OrtEnvironment.getAvailableProviders(), work);
        return sequence(wanted).run(problem);
    }

    private synchronized SequenceGraph sequence(OrtProvider wanted) {
        SequenceGraph made = sequences.get(wanted);
        if (made == null) {
            try {
                made = SequenceGraph.open(wanted);
            } catch (FedRapException error) {
                if (wanted == OrtProvider.CPU) {
                    throw error;
                }
                made = sequence(OrtProvider.CPU); // offered, but it does not start here
            }
            sequences.put(wanted, made);
        }
        return made;
    }

    /** Ends the sessions; the trainer must not be used any more. */
    @Override
    public synchronized void close() {
        graph.close();
        for (SequenceGraph one : new HashSet<>(sequences.values())) {
            one.close();
        }
    }

    /** Places of problems with the same G, alike sizes together, few enough for one run. */
    private static List<List<Integer>> chunks(List<ShareProblem> problems) {
        List<Integer> order = new ArrayList<>();
        for (int place = 0; place < problems.size(); place++) {
            order.add(place);
        }
        Collections.sort(
                order, (a, b) -> Integer.compare(problems.get(a).count(), problems.get(b).count()));
        List<List<Integer>> chunks = new ArrayList<>();
        List<Integer> chunk = new ArrayList<>();
        for (int place : order) {
            ShareProblem problem = problems.get(place);
            boolean full = (chunk.size() + 1) * (long) problem.count() > MOST_ROWS;
            if (!chunk.isEmpty()
                    && (full
                            || chunk.size() == TOGETHER
                            || !same(problems.get(chunk.get(0)).base(), problem.base()))) {
                chunks.add(chunk);
                chunk = new ArrayList<>();
            }
            chunk.add(place);
        }
        if (!chunk.isEmpty()) {
            chunks.add(chunk);
        }
        return chunks;
    }

    private List<LocalShare> together(List<ShareProblem> problems) {
        Release release = release(problems.get(0));
        int most = problems.get(problems.size() - 1).count();
        if (release == null || most == 0) {
            return plain.solve(problems);
        }
        LocalShare[] shares = graph.run(problems, most, release.inverse, release.precision);
        for (int i = 0; i < shares.length; i++) {
            if (shares[i] == null) { // not done
                shares[i] = plain.solve(Collections.singletonList(problems.get(i))).get(0);
            }
        }
        return Arrays.asList(shares);
    }

    private Release release(ShareProblem problem) {
        Release last = known;
        if (last == null || !same(last.base, problem.base())) {
            last = Release.of(problem.base(), problem.dim());
            known = last;
        }
        return last;
    }

    private static boolean same(double[] one, double[] other) {
        return one == other || Arrays.equals(one, other);
    }

    /** What all problems of one release share. */
    private static final class Release {
        private static final double PRECISION = 2e-6; // of x, and of a gradient over |x|
        final double[] base; // (k·k) G
        final double[] inverse; // (k·k) G^-1
        final double precision;

        private Release(double[] base, double[] inverse, double precision) {
            this.base = base;
            this.inverse = inverse;
            this.precision = precision;
        }

        /** Null where G has no usable inverse. */
        static Release of(double[] base, int dim) {
            double[] inverse = invert(base, dim);
            double widest = 0; // a bound of the largest eigenvalue of G^-1
            for (int row = 0; inverse != null && row < dim; row++) {
                double sum = 0;
                for (int i = 0; i < dim; i++) {
                    sum += Math.abs(inverse[row * dim + i]);
                }
                widest = Math.max(widest, sum);
            }
            if (!(widest > 0 && widest <= Double.MAX_VALUE)) {
                return null;
            }
            double floor = 1.0 / widest; // no eigenvalue of G is below
            return new Release(base, inverse, PRECISION * PRECISION * Math.min(floor, 1.0));
        }

        /** By Gauss and Jordan; G is positive definite, so no pivot has to be looked for. */
        private static double[] invert(double[] base, int n) {
            double[] a = base.clone();
            double[] out = new double[n * n];
            for (int i = 0; i < n; i++) {
                out[i * n + i] = 1.0;
            }
            for (int column = 0; column < n; column++) {
                double pivot = a[column * n + column];
                if (!(pivot > 0 && pivot <= Double.MAX_VALUE)) {
                    return null;
                }
                for (int i = 0; i < n; i++) {
                    a[column * n + i] /= pivot;
                    out[column * n + i] /= pivot;
                }
                for (int row = 0; row < n; row++) {
                    double factor = a[row * n + column];
                    if (row != column && factor != 0) {
                        for (int i = 0; i < n; i++) {
                            a[row * n + i] -= factor * a[column * n + i];
                            out[row * n + i] -= factor * out[column * n + i];
                        }
                    }
                }
            }
            return out;
        }
    }
}
