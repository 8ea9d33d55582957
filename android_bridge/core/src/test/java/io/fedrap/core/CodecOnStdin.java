package io.fedrap.core;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * What a device makes of messages, for tests/android: a line of type and hex in, a line out: {@code ok}, or
 * the kind of the refusal.
 */
public final class CodecOnStdin {
    private CodecOnStdin() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", -1);
            try {
                Received.read(parts[0], unhex(parts[1]));
                out.append("ok\n");
            } catch (FedRapException refused) {
                out.append(refused.kind()).append('\n');
            }
        }
        System.out.print(out);
    }

    private static byte[] unhex(String hex) {
        byte[] out = new byte[hex.length() / 2];
        for (int i = 0; i < out.length; i++) {
            out[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return out;
    }
}
