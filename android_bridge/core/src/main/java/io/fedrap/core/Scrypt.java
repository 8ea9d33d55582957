package io.fedrap.core;

/** scrypt (RFC 7914): a key from a passphrase that costs memory for each try. */
final class Scrypt {
    private Scrypt() {}

    /** So many bytes; {@code n} is a power of two. */
    static byte[] derive(byte[] passphrase, byte[] salt, int n, int r, int p, int length) {
        byte[] blocks = pbkdf2(passphrase, salt, p * 128 * r);
        int[] words = new int[blocks.length / 4];
        for (int i = 0; i < words.length; i++) {
            words[i] = (blocks[4 * i] & 255)
                    | (blocks[4 * i + 1] & 255) << 8
                    | (blocks[4 * i + 2] & 255) << 16
                    | (blocks[4 * i + 3] & 255) << 24;
        }
        for (int block = 0; block < p; block++) {
            mix(words, block * 32 * r, n, r);
        }
        for (int i = 0; i < words.length; i++) {
            for (int b = 0; b < 4; b++) {
                blocks[4 * i + b] = (byte) (words[i] >>> 8 * b);
            }
        }
        return pbkdf2(passphrase, blocks, length);
    }

    /** ROMix of the block that starts at {@code at}. */
    private static void mix(int[] words, int at, int n, int r) {
        int size = 32 * r;
        int[] x = new int[size];
        int[] next = new int[size];
        System.arraycopy(words, at, x, 0, size);
        int[][] kept = new int[n][];
        for (int i = 0; i < n; i++) {
            kept[i] = x.clone();
            blockMix(x, next, r);
            int[] swap = x;
            x = next;
            next = swap;
        }
        for (int i = 0; i < n; i++) {
            int[] other = kept[x[(2 * r - 1) * 16] & (n - 1)];
            for (int j = 0; j < size; j++) {
                x[j] ^= other[j];
            }
            blockMix(x, next, r);
            int[] swap = x;
            x = next;
            next = swap;
        }
        System.arraycopy(x, 0, words, at, size);
    }

    private static void blockMix(int[] from, int[] to, int r) {
        int[] x = new int[16];
        System.arraycopy(from, (2 * r - 1) * 16, x, 0, 16);
        for (int i = 0; i < 2 * r; i++) {
            for (int j = 0; j < 16; j++) {
                x[j] ^= from[16 * i + j];
            }
            salsa(x);
            System.arraycopy(x, 0, to, (i / 2 + (i % 2) * r) * 16, 16);
        }
    }

    /** Salsa20/8 in place. */
    private static void salsa(int[] b) {
        int[] x = b.clone();
        for (int round = 0; round < 4; round++) {
            for (int i = 0; i < 4; i++) { // columns, each from its diagonal on
                quarter(x, 5 * i & 15, 5 * i + 4 & 15, 5 * i + 8 & 15, 5 * i + 12 & 15);
            }
            for (int i = 0; i < 4; i++) { // rows
                int row = 4 * i;
                quarter(x, row + (i & 3), row + (i + 1 & 3), row + (i + 2 & 3), row + (i + 3 & 3));
            }
        }
        for (int i = 0; i < 16; i++) {
            b[i] += x[i];
        }
    }

    private static void quarter(int[] x, int a, int b, int c, int d) {
        x[b] ^= Integer.rotateLeft(x[a] + x[d], 7);
        x[c] ^= Integer.rotateLeft(x[b] + x[a], 9);
        x[d] ^= Integer.rotateLeft(x[c] + x[b], 13);
        x[a] ^= Integer.rotateLeft(x[d] + x[c], 18);
    }

    /** PBKDF2-HMAC-SHA256 with one iteration. */
    private static byte[] pbkdf2(byte[] passphrase, byte[] salt, int length) {
        byte[] out = new byte[length];
        for (int block = 1, done = 0; done < length; block++, done += 32) {
            byte[] hash = Hkdf.hmac(passphrase, Bytes.join(salt, Bytes.bigEndian(block, 4)));
            System.arraycopy(hash, 0, out, done, Math.min(32, length - done));
        }
        return out;
    }
}
