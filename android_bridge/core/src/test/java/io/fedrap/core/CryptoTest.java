package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Sealing and signing against the vectors that Python made. */
class CryptoTest {
    @TestFactory
    Stream<DynamicTest> whatPythonSealedOpensHere() {
        return Vectors.each(
                "seal",
                one -> {
                    byte[] info =
                            Hpke.updateInfo(
                                    one.bytes("task"), one.bytes("round"), one.integer("step"),
                                    one.bytes("model"), one.bytes("plan"), one.bytes("device"),
                                    one.bytes("seal_id"));
                    assertArrayEquals(one.bytes("info"), info);
                    byte[] secret = one.bytes("private_key");
                    if (one.valid()) {
                        assertArrayEquals(
                                one.bytes("plaintext"), Opener.open(secret, info, one.bytes("sealed")));
                        byte[] again =
                                Hpke.seal(Opener.pointOf(secret), info, one.bytes("plaintext"));
                        assertEquals(one.bytes("sealed").length, again.length);
                        assertArrayEquals(one.bytes("plaintext"), Opener.open(secret, info, again));
                    } else {
                        one.refuses(() -> Opener.open(secret, info, one.bytes("sealed")));
                    }
                });
    }

    @TestFactory
    Stream<DynamicTest> signaturesAreJudgedAsInPython() {
        return Vectors.each(
                "signing",
                one -> {
                    byte[] message =
                            Signer.signedBytes(
                                    one.text("method"), one.text("path"), one.bytes("body"),
                                    one.bytes("device"), one.integer("nonce"));
                    assertArrayEquals(one.bytes("message"), message);
                    byte[] point = one.bytes("public_key");
                    if (one.valid()) {
                        Signer.verify(P256.publicKey(point), message, one.bytes("signature"));
                        byte[] own = Signer.sign(P256.privateKey(one.bytes("private_key")), message);
                        Signer.verify(P256.publicKey(point), message, own);
                        assertEquals(Signer.SIGNATURE_BYTES, own.length);
                    } else {
                        one.refuses(
                                () ->
                                        Signer.verify(
                                                P256.publicKey(point), message, one.bytes("signature")));
                    }
                });
    }

    /** RFC 5869, A.1 and A.3. */
    @Test
    void hkdfGivesTheBytesOfItsRfc() {
        byte[] secret = Vectors.unhex("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b");
        byte[] key = Hkdf.extract(Vectors.unhex("000102030405060708090a0b0c"), secret);
        assertEquals(
                "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
                Bytes.hex(Hkdf.expand(key, Vectors.unhex("f0f1f2f3f4f5f6f7f8f9"), 42)));
        assertEquals(
                "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
                Bytes.hex(Hkdf.expand(Hkdf.extract(new byte[0], secret), new byte[0], 42)));
    }

    /** RFC 9180 has no vector of this suite's ephemeral key as bytes, so: two seals differ, both open. */
    @Test
    void twoSealsOfTheSameBytesDiffer() {
        KeyPair pair = P256.generate();
        byte[] secret = P256.secret(pair.getPrivate());
        byte[] point = P256.point(pair.getPublic());
        assertArrayEquals(point, Opener.pointOf(secret));
        byte[] plaintext = "the same".getBytes(StandardCharsets.UTF_8);
        byte[] one = Hpke.seal(point, new byte[] {1}, plaintext);
        byte[] two = Hpke.seal(point, new byte[] {1}, plaintext);
        assertNotEquals(Bytes.hex(one), Bytes.hex(two));
        assertArrayEquals(plaintext, Opener.open(secret, new byte[] {1}, one));
        assertThrows(FedRapException.class, () -> Opener.open(secret, new byte[] {2}, one));
    }

    @Test
    void keysThatAreNoneAreRefused() {
        byte[] point = P256.point(P256.generate().getPublic());
        byte[] off = point.clone();
        off[64] ^= 1;
        byte[] compressed = point.clone();
        compressed[0] = 2;
        for (byte[] bad : new byte[][] {off, compressed, new byte[65], new byte[0], new byte[64]}) {
            FedRapException error =
                    assertThrows(FedRapException.class, () -> P256.publicKey(bad));
            assertEquals(FedRapException.Kind.MALFORMED_MESSAGE, error.kind());
            assertThrows(FedRapException.class, () -> Hpke.seal(bad, new byte[0], new byte[0]));
        }
        byte[] high = new byte[32];
        java.util.Arrays.fill(high, (byte) 0xff);
        for (byte[] bad : new byte[][] {new byte[32], high, new byte[31], new byte[0]}) {
            assertThrows(FedRapException.class, () -> P256.privateKey(bad));
        }
    }
}
