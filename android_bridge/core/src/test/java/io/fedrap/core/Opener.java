package io.fedrap.core;

import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import javax.crypto.Cipher;

/** The aggregator's side of HPKE, which no device needs: it opens what was sealed. */
final class Opener {
    private static final BigInteger P =
            new BigInteger("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff", 16);
    private static final BigInteger[] BASE = {
        new BigInteger("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296", 16),
        new BigInteger("4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5", 16)
    };

    private Opener() {}

    static byte[] open(byte[] secret, byte[] info, byte[] sealed) {
        if (sealed.length < Hpke.OVERHEAD) {
            throw broken(null);
        }
        byte[] point = Arrays.copyOf(sealed, P256.POINT_BYTES);
        byte[] agreed = P256.agree(P256.privateKey(secret), P256.publicKey(point));
        try {
            Cipher cipher =
                    Hpke.cipher(Cipher.DECRYPT_MODE, Hpke.shared(agreed, point, pointOf(secret)), info);
            return cipher.doFinal(sealed, point.length, sealed.length - point.length);
        } catch (GeneralSecurityException error) {
            throw broken(error);
        }
    }

    private static FedRapException broken(Throwable cause) {
        return new FedRapException(
                FedRapException.Kind.MALFORMED_MESSAGE, "the sealed part does not open", cause);
    }

    /** secret·G by doubling and adding, in numbers that need not be fast. */
    static byte[] pointOf(byte[] secret) {
        BigInteger number = new BigInteger(1, secret);
        BigInteger[] sum = null;
        for (int bit = number.bitLength() - 1; bit >= 0; bit--) {
            sum = sum == null ? null : add(sum, sum);
            if (number.testBit(bit)) {
                sum = sum == null ? BASE : add(sum, BASE);
            }
        }
        return Bytes.join(new byte[] {4}, P256.fixed(sum[0]), P256.fixed(sum[1]));
    }

    private static BigInteger[] add(BigInteger[] a, BigInteger[] b) {
        BigInteger three = BigInteger.valueOf(3);
        BigInteger slope =
                a[0].equals(b[0])
                        ? a[0].multiply(a[0]).subtract(BigInteger.ONE).multiply(three)
                                .multiply(a[1].shiftLeft(1).modInverse(P))
                        : b[1].subtract(a[1]).multiply(b[0].subtract(a[0]).modInverse(P));
        BigInteger x = slope.multiply(slope).subtract(a[0]).subtract(b[0]).mod(P);
        return new BigInteger[] {x, slope.multiply(a[0].subtract(x)).subtract(a[1]).mod(P)};
    }
}
