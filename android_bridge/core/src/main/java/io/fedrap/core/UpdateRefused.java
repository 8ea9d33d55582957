package io.fedrap.core;

/** The coordinator refused a request. */
public final class UpdateRefused extends FedRapException {
    private static final long serialVersionUID = 1L;

    /** Which of the stable reasons. */
    public final Problem problem;

    /** Seconds until asking again could help; null where the coordinator did not say. */
    public final Double retryAfter;

    UpdateRefused(Problem problem, String detail, Double retryAfter) {
        super(Kind.UPDATE_REFUSED, problem.code + ": " + detail);
        this.problem = problem;
        this.retryAfter = retryAfter;
    }

    /** Sending the same bytes again cannot help. */
    public boolean isFinal() {
        return problem.family != Problem.Family.RETRY;
    }
}
