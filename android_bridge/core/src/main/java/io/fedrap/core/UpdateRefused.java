package io.fedrap.core;

import org.jspecify.annotations.Nullable;

/** The coordinator refused a request. */
public final class UpdateRefused extends FedRapException {
    private static final long serialVersionUID = 1L;
    private final transient Problem problem;

    UpdateRefused(Problem problem) {
        super(Kind.UPDATE_REFUSED, problem.code + ": " + problem.detail);
        this.problem = problem;
    }

    /** One of the stable codes of spec/PROTOCOL.md 8, such as "too-soon". */
    public String code() {
        return problem.code;
    }

    /** Seconds until asking again could help; null where the coordinator did not say. */
    public @Nullable Double retryAfter() {
        return Double.isNaN(problem.retryAfter) ? null : (Double) problem.retryAfter;
    }

    /** Sending the same bytes again cannot help. */
    public boolean isFinal() {
        return problem.family != Problem.Family.RETRY;
    }

    boolean is(String code) {
        return problem.code.equals(code);
    }
}
