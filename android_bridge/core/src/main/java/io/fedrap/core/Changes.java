package io.fedrap.core;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Values that change together, and how they look in a record of the store.
 *
 * <pre>
 * for each: name (UTF), then one of  0 = gone · 1, u32 size, bytes · 2, u64 number of a blob file
 * </pre>
 */
final class Changes {
    /** A value as it is kept: its bytes, or the number of the file that has them. */
    static final class Kept {
        final byte[] bytes; // null where they are in a file
        final long blob;

        Kept(byte[] bytes) {
            this.bytes = bytes;
            this.blob = 0;
        }

        Kept(long blob) {
            this.bytes = null;
            this.blob = blob;
        }
    }

    private Changes() {}

    /** A null for a value that is gone. */
    static byte[] encode(Map<String, Kept> values) {
        ByteArrayOutputStream raw = new ByteArrayOutputStream();
        try {
            DataOutputStream out = new DataOutputStream(raw);
            for (Map.Entry<String, Kept> one : values.entrySet()) {
                out.writeUTF(one.getKey());
                Kept value = one.getValue();
                out.writeByte(value == null ? 0 : value.bytes != null ? 1 : 2);
                if (value != null && value.bytes != null) {
                    out.writeInt(value.bytes.length);
                    out.write(value.bytes);
                } else if (value != null) {
                    out.writeLong(value.blob);
                }
            }
        } catch (IOException error) {
            throw new IllegalStateException(error); // memory does not fail
        }
        return raw.toByteArray();
    }

    /**
     * What a record says.
     *
     * @throws FedRapException STORE_DAMAGED: it is of another version.
     */
    static Map<String, Kept> decode(byte[] raw) {
        Map<String, Kept> values = new LinkedHashMap<>();
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(raw))) {
            while (in.available() > 0) {
                values.put(in.readUTF(), value(in));
            }
        } catch (IOException error) {
            throw FedRapException.damaged(
                    "a record of another version; update the app, or delete the store", error);
        }
        return values;
    }

    private static Kept value(DataInputStream in) throws IOException {
        int kind = in.readByte();
        if (kind == 0) {
            return null;
        }
        if (kind == 2) {
            return new Kept(in.readLong());
        }
        int size = in.readInt();
        if (kind != 1 || size < 0 || size > in.available()) {
            throw new IOException("not a value");
        }
        byte[] bytes = new byte[size];
        in.readFully(bytes);
        return new Kept(bytes);
    }
}
