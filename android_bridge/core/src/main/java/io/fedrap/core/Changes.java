package io.fedrap.core;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Values that change together, and how they look in a record of the store. A value is its bytes, or the
 * number, a Long, of the file that has them.
 *
 * <pre>
 * for each: name (UTF), then one of  0 = gone · 1, u32 size, bytes · 2, u64 number of a blob file
 * </pre>
 */
final class Changes {
    private Changes() {}

    /** A null for a value that is gone. */
    static byte[] encode(Map<String, Object> values) {
        ByteArrayOutputStream raw = new ByteArrayOutputStream();
        try {
            DataOutputStream out = new DataOutputStream(raw);
            for (Map.Entry<String, Object> one : values.entrySet()) {
                out.writeUTF(one.getKey());
                Object value = one.getValue();
                out.writeByte(value == null ? 0 : value instanceof byte[] ? 1 : 2);
                if (value instanceof byte[]) {
                    out.writeInt(((byte[]) value).length);
                    out.write((byte[]) value);
                } else if (value != null) {
                    out.writeLong((Long) value);
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
    static Map<String, Object> decode(byte[] raw) {
        Map<String, Object> values = new LinkedHashMap<>();
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

    private static Object value(DataInputStream in) throws IOException {
        int kind = in.readByte();
        if (kind == 0) {
            return null;
        }
        if (kind == 2) {
            return in.readLong();
        }
        int size = in.readInt();
        if (kind != 1 || size < 0 || size > in.available()) {
            throw new IOException("not a value");
        }
        byte[] bytes = new byte[size];
        in.readFully(bytes);
        return bytes;
    }
}
