package io.fedrap.core;

import io.fedrap.core.FedRapException.Kind;
import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.interfaces.ECPrivateKey;
import java.security.interfaces.ECPublicKey;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import javax.crypto.KeyAgreement;

/**
 * P-256 keys as bytes: uncompressed points of 65 bytes, secret numbers of 32.
 *
 * <p>Keys are read as DER with a fixed beginning, because AlgorithmParameters("EC") is not on every
 * Android.
 */
final class P256 {
    static final int POINT_BYTES = 65;
    static final int SECRET_BYTES = 32;

    private static final byte[] PUBLIC_HEAD =
            Bytes.unhex("3059301306072a8648ce3d020106082a8648ce3d030107034200");
    private static final byte[] PRIVATE_HEAD =
            Bytes.unhex("3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420");
    private static final BigInteger P =
            new BigInteger("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff", 16);
    private static final BigInteger B =
            new BigInteger("5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b", 16);
    private static final BigInteger ORDER =
            new BigInteger("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16);

    private P256() {}

    static KeyPair generate() {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
            generator.initialize(new ECGenParameterSpec("secp256r1"));
            return generator.generateKeyPair();
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("this platform has no P-256", error);
        }
    }

    /** The public key as an uncompressed point. */
    static byte[] point(PublicKey key) {
        ECPublicKey ec = (ECPublicKey) key;
        return Bytes.join(
                new byte[] {4}, fixed(ec.getW().getAffineX()), fixed(ec.getW().getAffineY()));
    }

    /** The secret number of a private key, 32 bytes big-endian. */
    static byte[] secret(PrivateKey key) {
        return fixed(((ECPrivateKey) key).getS());
    }

    /**
     * The public key of an uncompressed point.
     *
     * @throws FedRapException MALFORMED_MESSAGE: the bytes are not a point of the curve.
     */
    static PublicKey publicKey(byte[] point) {
        if (point.length != POINT_BYTES || point[0] != 4 || !isOnCurve(point)) {
            throw FedRapException.malformed("not an uncompressed P-256 point");
        }
        try {
            byte[] der = Bytes.join(PUBLIC_HEAD, point);
            return KeyFactory.getInstance("EC").generatePublic(new X509EncodedKeySpec(der));
        } catch (GeneralSecurityException error) {
            throw new FedRapException(
                    Kind.MALFORMED_MESSAGE,
                    "not an uncompressed P-256 point", error);
        }
    }

    /**
     * The key of a secret number.
     *
     * @throws FedRapException MALFORMED_MESSAGE: not 32 bytes, or not a number of the curve.
     */
    static PrivateKey privateKey(byte[] secret) {
        BigInteger number = new BigInteger(1, secret);
        boolean good = secret.length == SECRET_BYTES && number.signum() > 0;
        if (!good || number.compareTo(ORDER) >= 0) {
            throw FedRapException.malformed("not a P-256 private key of 32 bytes");
        }
        try {
            byte[] der = Bytes.join(PRIVATE_HEAD, secret);
            return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(der));
        } catch (GeneralSecurityException error) {
            throw new FedRapException(
                    Kind.MALFORMED_MESSAGE,
                    "not a P-256 private key of 32 bytes", error);
        }
    }

    /** The shared secret of two keys (ECDH). */
    static byte[] agree(PrivateKey own, PublicKey other) {
        try {
            KeyAgreement agreement = KeyAgreement.getInstance("ECDH");
            agreement.init(own);
            agreement.doPhase(other, true);
            return agreement.generateSecret();
        } catch (GeneralSecurityException error) {
            throw new FedRapException(Kind.MALFORMED_MESSAGE, "the keys do not agree", error);
        }
    }

    /** 32 bytes big-endian. */
    static byte[] fixed(BigInteger number) {
        byte[] raw = number.toByteArray();
        byte[] out = new byte[SECRET_BYTES];
        int used = Math.min(raw.length, SECRET_BYTES);
        System.arraycopy(raw, raw.length - used, out, SECRET_BYTES - used, used);
        return out;
    }

    /** Not every provider checks this, and a point elsewhere would give parts of a secret away. */
    private static boolean isOnCurve(byte[] point) {
        BigInteger x = new BigInteger(1, Arrays.copyOfRange(point, 1, 33));
        BigInteger y = new BigInteger(1, Arrays.copyOfRange(point, 33, 65));
        if (x.compareTo(P) >= 0 || y.compareTo(P) >= 0) {
            return false;
        }
        BigInteger right = x.multiply(x).subtract(BigInteger.valueOf(3)).multiply(x).add(B).mod(P);
        return y.multiply(y).mod(P).equals(right);
    }
}
