package io.fedrap.core;

/**
 * The stable codes of what a coordinator refuses (spec/PROTOCOL.md 8), each with what to do about it.
 *
 * <p>Devices act on the family of a code; a code keeps its status and family for ever.
 */
public enum Problem {
    MALFORMED("malformed", 400, Family.GIVE_UP),
    UNSUPPORTED_VERSION("unsupported-version", 400, Family.OPERATOR),
    BAD_SIGNATURE("bad-signature", 401, Family.GIVE_UP),
    NOT_ENROLLED("not-enrolled", 401, Family.OPERATOR),
    CERTIFICATE_EXPIRED("certificate-expired", 401, Family.RETRY),
    UNKNOWN_ADMIN("unknown-admin", 401, Family.OPERATOR),
    TOKEN_REFUSED("token-refused", 403, Family.OPERATOR),
    NOT_ASSIGNED("not-assigned", 403, Family.GIVE_UP),
    BUDGET_SPENT("budget-spent", 403, Family.GIVE_UP),
    TASK_OVER("task-over", 403, Family.GIVE_UP),
    REVOKED("revoked", 403, Family.OPERATOR),
    ATTESTATION_REFUSED("attestation-refused", 403, Family.OPERATOR),
    TOO_MANY_DEVICES("too-many-devices", 403, Family.OPERATOR),
    NOT_ALLOWED("not-allowed", 403, Family.OPERATOR),
    NOT_FOUND("not-found", 404, Family.GIVE_UP),
    METHOD_NOT_ALLOWED("method-not-allowed", 405, Family.GIVE_UP),
    REPLAYED("replayed", 409, Family.RETRY),
    TOO_SOON("too-soon", 409, Family.RETRY),
    TOO_NEW("too-new", 409, Family.RETRY),
    EXISTS_ALREADY("exists-already", 409, Family.GIVE_UP),
    STALE_MODEL("stale-model", 409, Family.GIVE_UP),
    ROUND_CLOSED("round-closed", 409, Family.GIVE_UP),
    CONFLICTING_UPDATE("conflicting-update", 409, Family.GIVE_UP),
    TOO_LARGE("too-large", 413, Family.GIVE_UP),
    WRONG_SHAPE("wrong-shape", 422, Family.GIVE_UP),
    NOT_FINITE("not-finite", 422, Family.GIVE_UP),
    SLOW_DOWN("slow-down", 429, Family.RETRY),
    INTERNAL("internal", 500, Family.RETRY),
    NO_ROUND("no-round", 503, Family.RETRY),
    UNAVAILABLE("unavailable", 503, Family.RETRY);

    /** What the caller should do: the same later, nothing more with this update, or call for help. */
    public enum Family {
        RETRY,
        GIVE_UP,
        OPERATOR
    }

    static final String PREFIX = "urn:fedrap:problem:";

    /** The word on the wire. */
    public final String code;

    /** Its HTTP status. */
    public final int status;

    /** What to do about it. */
    public final Family family;

    Problem(String code, int status, Family family) {
        this.code = code;
        this.status = status;
        this.family = family;
    }

    /** The problem of a code, or null for a word that this version does not know. */
    static Problem of(String code) {
        for (Problem one : values()) {
            if (one.code.equals(code)) {
                return one;
            }
        }
        return null;
    }
}
