package io.fedrap.core;

import java.util.Arrays;

/** A key that a test knows. */
final class FixedKey implements KeyProvider {
    private final byte[] key = new byte[KEY_BYTES];
    boolean erased;

    FixedKey(int fill) {
        Arrays.fill(key, (byte) fill);
    }

    @Override
    public byte[] key(boolean storeExists) {
        return key.clone();
    }

    @Override
    public void erase() {
        erased = true;
    }
}
