package io.fedrap.core;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * What a coordinator refuses with (RFC 9457, PROTOCOL 8): a code, what to do, and when to come back.
 *
 * <p>Whatever is not one of ours means: try again later.
 */
final class Problem {
    static final String PREFIX = "urn:fedrap:problem:";
    static final Map<String, Family> FAMILIES = new HashMap<>();

    static {
        put(
                Family.GIVE_UP,
                "malformed bad-signature not-assigned budget-spent task-over not-found"
                        + " method-not-allowed exists-already stale-model round-closed"
                        + " conflicting-update too-large wrong-shape not-finite");
        put(
                Family.OPERATOR,
                "unsupported-version not-enrolled unknown-admin token-refused revoked"
                        + " attestation-refused too-many-devices not-allowed");
        put(
                Family.RETRY,
                "certificate-expired replayed too-soon too-new slow-down internal no-round"
                        + " unavailable");
    }

    final String code; // "" where the answer has none that is known
    final int status;
    final Family family;
    final String detail; // a sentence for people
    final double retryAfter; // seconds; NaN where the answer does not say

    /** What to do about it. */
    enum Family {
        /** The same thing again, later. */
        RETRY,
        /** Drop this update or request. */
        GIVE_UP,
        /** Somebody has to do something first. */
        OPERATOR
    }

    /** Of a code; null for a word that is none. */
    static Family familyOf(String code) {
        return FAMILIES.get(code);
    }

    private Problem(
            String code, int status, Family family, String detail, double retryAfter) {
        this.code = code;
        this.status = status;
        this.family = family;
        this.detail = detail;
        this.retryAfter = retryAfter;
    }

    /**
     * The problem in an answer that is not a good one. Never throws, whatever the bytes are.
     *
     * @param retryHeader the header Retry-After, or null
     */
    static Problem read(int status, byte[] body, String retryHeader) {
        String code = "";
        String detail = "status " + status + " without a problem document";
        double after = Double.NaN;
        try {
            Object parsed = Json.parse(new String(body, StandardCharsets.UTF_8));
            if (parsed instanceof Map) {
                Map<?, ?> map = (Map<?, ?>) parsed;
                Object type = map.get("type");
                if (type instanceof String && ((String) type).startsWith(PREFIX)) {
                    code = ((String) type).substring(PREFIX.length());
                }
                Object words = map.get("detail");
                if (!code.isEmpty()) {
                    detail = words instanceof String ? cut((String) words) : code;
                }
                Object said = map.get("retry_after");
                after = said instanceof Number ? ((Number) said).doubleValue() : after;
            }
        } catch (FedRapException notADocument) {
            code = "";
        }
        Family family = FAMILIES.get(code);
        if (family == null) {
            code = "";
            family = Family.RETRY;
        }
        return new Problem(code, status, family, detail, within(after, retryHeader));
    }

    private static String cut(String words) {
        return words.substring(0, Math.min(words.length(), 500));
    }

    private static double within(double said, String header) {
        if (Double.isNaN(said) && header != null && header.trim().matches("[0-9]{1,9}")) {
            said = Double.parseDouble(header.trim());
        }
        return said >= 0 && said <= 1e9 ? said : Double.NaN;
    }

    private static void put(Family family, String codes) {
        for (String code : codes.split(" ")) {
            FAMILIES.put(code, family);
        }
    }
}
