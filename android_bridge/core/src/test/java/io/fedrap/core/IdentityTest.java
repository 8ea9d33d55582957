package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.fedrap.core.FedRapException.Kind;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Certificates and signed tokens against the vectors, and whose certificate a device takes. */
class IdentityTest {
    @TestFactory
    Stream<DynamicTest> certificatesAreReadAsInPython() {
        return Vectors.each(
                "certificate",
                one -> {
                    byte[] authority = one.bytes("authority");
                    if (!one.valid()) {
                        one.refuses(() -> Certificate.read(authority, one.bytes("signed")));
                        return;
                    }
                    Certificate found = Certificate.read(authority, one.bytes("signed"));
                    Vectors.Case fields = one.inner("fields");
                    assertArrayEquals(fields.inner("device").bytes("hex"), found.device);
                    assertArrayEquals(fields.inner("task").bytes("hex"), found.task);
                    assertArrayEquals(fields.inner("public_key").bytes("hex"), found.publicKey);
                    assertEquals(fields.number("expires_at"), found.expiresAt);
                    assertArrayEquals(
                            one.bytes("enrol_challenge"),
                            Certificate.enrolChallenge(found.publicKey, one.text("token")));
                    assertArrayEquals(
                            one.bytes("renew_challenge"),
                            Certificate.renewChallenge(found.publicKey, one.integer("nonce")));
                });
    }

    @TestFactory
    Stream<DynamicTest> tokensAreJudgedAsInPython() {
        return Vectors.each(
                "token",
                one -> {
                    String token = one.text("token");
                    byte[] key = one.bytes("public_key");
                    String audience = one.text("audience");
                    double now = one.number("now");
                    if (one.valid()) {
                        assertEquals(
                                one.inner("claims").fields,
                                TokenReader.read(token, one.text("issuer"), key, audience, now));
                    } else {
                        one.refuses(
                                () -> TokenReader.read(token, one.text("issuer"), key, audience, now));
                    }
                });
    }

    @Test
    void aDeviceTakesACertificateOnlyForItself() {
        Vectors.Case good = Vectors.cases("certificate").get(0);
        byte[] signed = good.bytes("signed");
        byte[] authority = good.bytes("authority");
        Certificate named = Certificate.read(authority, signed);
        byte[] none = new byte[0];
        byte[] other = new byte[16];
        byte[] point = P256.point(P256.generate().getPublic());
        Credentials own =
                new Credentials(named.device, named.task, new byte[32], named.publicKey, none, none, 0);
        Credentials taken = Membership.certified(own, signed, authority, 1000.0);
        assertEquals(1000.0 + 2.0 / 3.0 * 30 * 86400, taken.renewAt, 1e-6);
        Credentials[] strangers = {
            new Credentials(other, named.task, new byte[32], named.publicKey, none, none, 0),
            new Credentials(named.device, other, new byte[32], named.publicKey, none, none, 0),
            new Credentials(named.device, named.task, new byte[32], point, none, none, 0),
        };
        for (Credentials stranger : strangers) {
            FedRapException error =
                    assertThrows(
                            FedRapException.class,
                            () -> Membership.certified(stranger, signed, authority, 0));
            assertEquals(Kind.COORDINATOR_UNREACHABLE, error.kind());
        }
        FedRapException error =
                assertThrows(
                        FedRapException.class, () -> Membership.certified(own, signed, point, 0));
        assertEquals(Kind.COORDINATOR_UNREACHABLE, error.kind());
    }
}
