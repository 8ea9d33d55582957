package io.fedrap.ort;

import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtProvider;
import ai.onnxruntime.OrtSession;
import ai.onnxruntime.OrtSession.SessionOptions;
import io.fedrap.core.FedRapException;
import io.fedrap.core.SequenceAnswer;
import io.fedrap.core.SequenceProblem;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The session of sequence_v1.onnx: a softmax over a block of items. May be used from several threads. */
final class SequenceGraph {
    static final String NAME = "sequence_v1.onnx";
    static final long WORTH_AN_ACCELERATOR = 200_000_000L; // products, as in the Python SDK
    private static final float NOBODY = -1e30f; // bias of rows that only fill up a group
    private static final List<OrtProvider> PROVIDERS =
            Arrays.asList(
                    OrtProvider.CUDA,
                    OrtProvider.ROCM,
                    OrtProvider.CORE_ML,
                    OrtProvider.DIRECT_ML,
                    OrtProvider.NNAPI);

    private final OrtEnvironment environment;
    private final OrtSession session;

    private SequenceGraph(OrtEnvironment environment, OrtSession session) {
        this.environment = environment;
        this.session = session;
    }

    /** The provider for so many products: the best that is offered where it is worth one, else CPU. */
    static OrtProvider pick(Set<OrtProvider> offered, long work) {
        for (OrtProvider one : PROVIDERS) {
            if (work >= WORTH_AN_ACCELERATOR && offered.contains(one)) {
                return one;
            }
        }
        return OrtProvider.CPU;
    }

    /** Throws TRAINER_UNAVAILABLE where that provider does not start. */
    static SequenceGraph open(OrtProvider provider) {
        OrtEnvironment environment = OrtEnvironment.getEnvironment();
        return new SequenceGraph(
                environment, SolveGraph.session(environment, NAME, options -> add(options, provider)));
    }

    private static void add(SessionOptions options, OrtProvider provider) throws OrtException {
        switch (provider) {
            case CUDA:
                options.addCUDA();
                break;
            case ROCM:
                options.addROCM();
                break;
            case CORE_ML:
                options.addCoreML();
                break;
            case DIRECT_ML:
                options.addDirectML(0);
                break;
            case NNAPI:
                options.addNnapi();
                break;
            default: // the CPU is always there
        }
    }

    SequenceAnswer run(SequenceProblem problem) {
        int count = problem.count();
        int k = problem.dim();
        FloatBuffer queries = floats(count * k);
        for (double number : problem.queries()) {
            queries.put((float) number);
        }
        queries.rewind();
        return problem.answer(
                (start, end, peak, groups, pulled) ->
                        look(problem, queries.duplicate(), start, end, peak, groups, pulled));
    }

    private void look(
            SequenceProblem problem,
            FloatBuffer queries,
            int start,
            int end,
            double[] peak,
            double[] groups,
            double[] pulled) {
        int k = problem.dim();
        int width = end - start;
        int filled = (width + SequenceProblem.GROUP - 1) / SequenceProblem.GROUP * SequenceProblem.GROUP;
        ByteBuffer values = ByteBuffer.allocateDirect(filled * k).order(ByteOrder.nativeOrder());
        values.put(problem.values(), start * k, width * k).rewind();
        FloatBuffer scales = floats(filled);
        scales.put(problem.scales(), start, width).rewind();
        FloatBuffer bias = floats(filled);
        bias.put(problem.bias(), start, width);
        while (bias.hasRemaining()) {
            bias.put(NOBODY);
        }
        bias.rewind();
        Map<String, OnnxTensor> inputs = new HashMap<>();
        try {
            inputs.put("queries", tensor(queries, peak.length, k));
            inputs.put(
                    "values",
                    OnnxTensor.createTensor(
                            environment, values, new long[] {filled, k}, OnnxJavaType.INT8));
            inputs.put("scales", tensor(scales, filled));
            inputs.put("bias", tensor(bias, filled));
            try (OrtSession.Result result = session.run(inputs)) {
                read(result, "peak", peak);
                read(result, "groups", groups);
                read(result, "pulled", pulled);
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

    private static void read(OrtSession.Result result, String name, double[] into) {
        FloatBuffer numbers = ((OnnxTensor) result.get(name).get()).getFloatBuffer();
        for (int i = 0; i < into.length; i++) {
            into[i] = numbers.get(i);
        }
    }

    private OnnxTensor tensor(FloatBuffer numbers, long... shape) throws OrtException {
        return OnnxTensor.createTensor(environment, numbers, shape);
    }

    private static FloatBuffer floats(int count) {
        return ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder()).asFloatBuffer();
    }

    void close() {
        try {
            session.close();
        } catch (OrtException error) {
            throw new IllegalStateException("the session was closed before", error);
        }
    }
}
