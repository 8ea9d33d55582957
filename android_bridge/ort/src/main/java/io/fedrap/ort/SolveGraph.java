package io.fedrap.ort;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtLoggingLevel;
import ai.onnxruntime.OrtSession;
import ai.onnxruntime.OrtSession.SessionOptions;
import io.fedrap.core.FedRapException;
import io.fedrap.core.LocalShare;
import io.fedrap.core.ShareProblem;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The session of solve_v1.onnx. May be used from several threads. */
final class SolveGraph {
    private static final String NAME = "solve_v1.onnx";
    private static final long MOST_STEPS = 64;
    private static final Set<String> OUTPUTS =
            new LinkedHashSet<>(Arrays.asList("user", "gradients", "loss", "error", "goal"));

    private final OrtEnvironment environment;
    private final OrtSession session;

    private SolveGraph(OrtEnvironment environment, OrtSession session) {
        this.environment = environment;
        this.session = session;
    }

    /** Throws TRAINER_UNAVAILABLE where this platform has no ONNX Runtime. */
    static SolveGraph open() {
        OrtEnvironment environment;
        try {
            environment = OrtEnvironment.getEnvironment();
            environment.setTelemetry(false);
        } catch (OrtException | LinkageError error) {
            throw unavailable(error);
        }
        return new SolveGraph(environment, session(environment, NAME, options -> {}));
    }

    /** What a graph needs beside one quiet thread, such as another provider. */
    interface Extra {
        void add(SessionOptions options) throws OrtException;
    }

    /** A session of a graph that was packed with the app; throws TRAINER_UNAVAILABLE. */
    static OrtSession session(OrtEnvironment environment, String name, Extra extra) {
        try (SessionOptions options = new SessionOptions()) {
            options.setIntraOpNumThreads(1);
            options.setInterOpNumThreads(1);
            options.setExecutionMode(SessionOptions.ExecutionMode.SEQUENTIAL);
            // Higher levels rewrite the arithmetic and are no faster on graphs of this size.
            options.setOptimizationLevel(SessionOptions.OptLevel.BASIC_OPT);
            options.addConfigEntry("session.intra_op.allow_spinning", "0");
            options.setSessionLogLevel(OrtLoggingLevel.ORT_LOGGING_LEVEL_ERROR);
            extra.add(options);
            return environment.createSession(bytes(name), options);
        } catch (OrtException | IOException | LinkageError error) {
            throw unavailable(error);
        }
    }

    private static FedRapException unavailable(Throwable error) {
        return new FedRapException(
                FedRapException.Kind.TRAINER_UNAVAILABLE,
                "ONNX Runtime does not start here; use the plain trainer",
                error);
    }

    private static byte[] bytes(String name) throws IOException {
        try (InputStream in = SolveGraph.class.getResourceAsStream(name)) {
            if (in == null) {
                throw new IOException(name + " was not packed with the app");
            }
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            byte[] part = new byte[8192];
            for (int n = in.read(part); n >= 0; n = in.read(part)) {
                out.write(part, 0, n);
            }
            return out.toByteArray();
        }
    }

    /**
     * Problems of one release in one run; null for each that is not done after all steps.
     *
     * @param most the largest number of items of a problem; what is missing has weight 0
     */
    LocalShare[] run(List<ShareProblem> problems, int most, double[] inverse, double precision) {
        int count = problems.size();
        int dim = problems.get(0).dim();
        DoubleBuffer scaled = numbers(count * most * dim); // sqrt(a_l)·C_l (B, n, k)
        DoubleBuffer roots = numbers(count * most); // sqrt(a_l) (B, 1, n)
        for (int b = 0; b < count; b++) {
            ShareProblem problem = problems.get(b);
            for (int l = 0; l < problem.count(); l++) {
                double root = Math.sqrt(problem.weight(l));
                roots.put(b * most + l, root);
                int at = (b * most + l) * dim;
                for (int i = 0; i < dim; i++) {
                    scaled.put(at + i, root * problem.own(l, i));
                }
            }
        }
        Map<String, OnnxTensor> inputs = new HashMap<>();
        try {
            inputs.put("scaled", tensor(scaled, count, most, dim));
            inputs.put("roots", tensor(roots, count, 1, most));
            inputs.put("base", tensor(DoubleBuffer.wrap(problems.get(0).base()), dim, dim));
            inputs.put("inverse", tensor(DoubleBuffer.wrap(inverse), dim, dim));
            inputs.put("precision", OnnxTensor.createTensor(environment, (Object) precision));
            inputs.put("steps", OnnxTensor.createTensor(environment, (Object) MOST_STEPS));
            try (OrtSession.Result result = session.run(inputs, OUTPUTS)) {
                return read(result, problems, most, dim);
            }
        } catch (OrtException error) {
            throw new FedRapException(
                    FedRapException.Kind.BROKEN_MODEL,
                    "ONNX Runtime could not compute this round: " + error.getMessage(),
                    error);
        } finally {
            for (OnnxTensor one : inputs.values()) {
                one.close();
            }
        }
    }

    private static LocalShare[] read(
            OrtSession.Result result, List<ShareProblem> problems, int most, int dim) {
        DoubleBuffer users = output(result, "user"); // (B, 1, k)
        DoubleBuffer gradients = output(result, "gradients"); // (B, n, k)
        DoubleBuffer losses = output(result, "loss"); // (B, 1, 1)
        DoubleBuffer errors = output(result, "error");
        DoubleBuffer goals = output(result, "goal");
        LocalShare[] shares = new LocalShare[problems.size()];
        for (int b = 0; b < shares.length; b++) {
            if (errors.get(b) <= goals.get(b)) { // NaN is not done
                double[] user = new double[dim];
                users.position(b * dim);
                users.get(user);
                double[] own = new double[problems.get(b).count() * dim];
                gradients.position(b * most * dim);
                gradients.get(own);
                double loss = Math.max(0.0, Math.min(1.0, losses.get(b)));
                shares[b] = new LocalShare(user, own, loss);
            }
        }
        return shares;
    }

    private static DoubleBuffer output(OrtSession.Result result, String name) {
        return ((OnnxTensor) result.get(name).get()).getDoubleBuffer();
    }

    private OnnxTensor tensor(DoubleBuffer numbers, long... shape) throws OrtException {
        return OnnxTensor.createTensor(environment, numbers, shape);
    }

    /** Zeros outside of the heap, where the runtime reads them without a copy. */
    private static DoubleBuffer numbers(int count) {
        return ByteBuffer.allocateDirect(8 * count).order(ByteOrder.nativeOrder()).asDoubleBuffer();
    }

    void close() {
        try {
            session.close();
        } catch (OrtException error) {
            throw new IllegalStateException("the session was closed before", error);
        }
    }
}
