package io.fedrap.core;

/** Where the 32-byte key of a store comes from: a file, a platform's key store, or the app. */
public interface KeyProvider {
    /** Bytes that a key has. */
    int KEY_BYTES = 32;

    /**
     * The key, always the same one for the same store. It may block.
     *
     * @param storeExists there is a store that was made with the key: a provider that has lost it
     *     throws, and does not make another one.
     * @throws FedRapException STORE_LOCKED: the key is gone, or cannot be used now.
     */
    byte[] key(boolean storeExists);

    /** Delete the key for good; from then on every copy of the store is unreadable. */
    void erase();
}
