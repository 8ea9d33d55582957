package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;

/** The coordinator's side of signed enrolment tokens, which no device needs: a device passes them on. */
final class TokenReader {
    private static final double WEEK = 7 * 86400.0;

    private TokenReader() {}

    static Map<?, ?> read(String token, String issuer, byte[] key, String audience, double now) {
        String[] parts = token.split("\\.", -1);
        if (parts.length != 3 || token.indexOf('=') >= 0) {
            throw invalid("not a signed token");
        }
        Map<?, ?> header;
        Map<?, ?> claims;
        byte[] signature;
        try {
            header = (Map<?, ?>) Json.parse(text(parts[0]));
            claims = (Map<?, ?>) Json.parse(text(parts[1]));
            signature = Base64.getUrlDecoder().decode(parts[2]);
            if (!"ES256".equals(header.get("alg")) || !issuer.equals(claims.get("iss"))) {
                throw invalid("another algorithm or issuer");
            }
            byte[] signed = (parts[0] + "." + parts[1]).getBytes(StandardCharsets.US_ASCII);
            Signer.verify(P256.publicKey(key), signed, signature);
        } catch (IllegalArgumentException | ClassCastException error) {
            throw invalid("not base64url");
        } catch (FedRapException error) {
            throw invalid(error.getMessage());
        }
        double end = ((Number) claims.get("exp")).doubleValue();
        if (!audience.equals(claims.get("aud")) || now >= end || end > now + WEEK) {
            throw invalid("for another audience or time");
        }
        return claims;
    }

    private static String text(String part) {
        return new String(Base64.getUrlDecoder().decode(part), StandardCharsets.UTF_8);
    }

    private static FedRapException invalid(String why) {
        return new FedRapException(Kind.TOKEN_INVALID, why);
    }
}
