package io.fedrap.android;

import java.security.AlgorithmParameters;
import java.security.GeneralSecurityException;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.SecureRandom;
import java.security.spec.AlgorithmParameterSpec;
import javax.crypto.BadPaddingException;
import javax.crypto.Cipher;
import javax.crypto.CipherSpi;
import javax.crypto.IllegalBlockSizeException;
import javax.crypto.ShortBufferException;

/** AES-GCM with the keys of {@link TestKeystore}, which choose the IV; made through the provider. */
public final class TestKeystoreCipher extends CipherSpi {
    private final Cipher real;

    public TestKeystoreCipher() throws GeneralSecurityException {
        real = Cipher.getInstance("AES/GCM/NoPadding", "SunJCE");
    }

    @Override
    protected void engineInit(int mode, Key key, AlgorithmParameterSpec spec, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        if (!(key instanceof TestKeystore.Opaque) || !((TestKeystore.Opaque) key).valid) {
            throw new InvalidKeyException("Key permanently invalidated");
        }
        if (mode == Cipher.ENCRYPT_MODE && spec != null) {
            throw new InvalidAlgorithmParameterException("Caller-provided IV not permitted");
        }
        real.init(mode, ((TestKeystore.Opaque) key).inside, spec);
    }

    @Override
    protected void engineInit(int mode, Key key, SecureRandom random) throws InvalidKeyException {
        try {
            engineInit(mode, key, (AlgorithmParameterSpec) null, random);
        } catch (InvalidAlgorithmParameterException error) {
            throw new InvalidKeyException(error);
        }
    }

    @Override
    protected void engineInit(int mode, Key key, AlgorithmParameters params, SecureRandom random)
            throws InvalidAlgorithmParameterException {
        throw new InvalidAlgorithmParameterException("a GCMParameterSpec is needed");
    }

    @Override
    protected void engineUpdateAAD(byte[] source, int offset, int length) {
        real.updateAAD(source, offset, length);
    }

    @Override
    protected byte[] engineDoFinal(byte[] input, int offset, int length)
            throws IllegalBlockSizeException, BadPaddingException {
        return real.doFinal(input, offset, length);
    }

    @Override
    protected int engineDoFinal(byte[] in, int from, int length, byte[] out, int to)
            throws ShortBufferException, IllegalBlockSizeException,
                    BadPaddingException {
        return real.doFinal(in, from, length, out, to);
    }

    @Override
    protected byte[] engineUpdate(byte[] input, int offset, int length) {
        return real.update(input, offset, length);
    }

    @Override
    protected int engineUpdate(byte[] in, int from, int length, byte[] out, int to)
            throws ShortBufferException {
        return real.update(in, from, length, out, to);
    }

    @Override
    protected byte[] engineGetIV() {
        return real.getIV();
    }

    @Override
    protected AlgorithmParameters engineGetParameters() {
        return real.getParameters();
    }

    @Override
    protected int engineGetOutputSize(int length) {
        return real.getOutputSize(length);
    }

    @Override
    protected int engineGetBlockSize() {
        return 16;
    }

    @Override
    protected void engineSetMode(String mode) {}

    @Override
    protected void engineSetPadding(String padding) {}
}
