package io.fedrap.core;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;

/** A coordinator on a raw socket, honest but where a test says otherwise: any byte, at any time. */
final class HostileServer implements Closeable {
    /** Writes an answer, or whatever it likes. */
    interface Reply {
        void write(OutputStream out) throws Exception;
    }

    final MadeCoordinator honest = new MadeCoordinator();
    final List<String> asked = new CopyOnWriteArrayList<>();
    private final Map<String, Reply> replies = new LinkedHashMap<>(); // by the beginning of a path
    private final ServerSocket socket = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());

    HostileServer() throws IOException {
        Thread thread = new Thread(this::serve);
        thread.setDaemon(true);
        thread.start();
    }

    String url() {
        return "http://127.0.0.1:" + socket.getLocalPort();
    }

    synchronized void on(String path, Reply reply) {
        replies.put(path, reply);
    }

    synchronized void honestAgain() {
        replies.clear();
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }

    private void serve() {
        while (!socket.isClosed()) {
            try {
                Socket client = socket.accept();
                Thread thread = new Thread(() -> answer(client));
                thread.setDaemon(true);
                thread.start();
            } catch (IOException error) {
                return;
            }
        }
    }

    private void answer(Socket client) {
        try (Socket open = client) {
            String head = head(open.getInputStream());
            String path = head.split(" ")[1];
            asked.add(path);
            byte[] body = body(open.getInputStream(), head);
            reply(path, body).write(open.getOutputStream());
            open.getOutputStream().flush();
        } catch (Exception error) {
            // The device hung up, as it should.
        }
    }

    private synchronized Reply reply(String path, byte[] body) {
        for (Map.Entry<String, Reply> one : replies.entrySet()) {
            if (path.startsWith(one.getKey())) {
                return one.getValue();
            }
        }
        return out -> good(out, honestly(path, body));
    }

    private byte[] honestly(String path, byte[] body) {
        if (path.startsWith("/v1/enrol")) {
            return honest.rawEnrolled();
        }
        if (path.startsWith("/v1/releases")) {
            return honest.rawRelease();
        }
        if (path.startsWith("/v1/log")) {
            return honest.rawLog(Long.parseLong(path.replaceAll(".*=", "")));
        }
        if (path.startsWith("/v1/catalogue")) {
            return MadeCoordinator.rawCatalogue(Long.parseLong(path.replaceAll(".*=", "")));
        }
        if (path.startsWith("/v1/offers")) {
            return honest.rawSigned(honest.rawOffer());
        }
        boolean sent = path.startsWith("/v1/rounds/");
        byte[] round = sent ? Vectors.unhex(path.split("/")[3]) : honest.round;
        return honest.rawSigned(
                MadeCoordinator.raw("accepted", "round", round, "digest", Bytes.sha256(body)));
    }

    static void good(OutputStream out, byte[] body) throws IOException {
        out.write(ascii("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + body.length + "\r\n\r\n"));
        out.write(body);
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static String head(InputStream in) throws IOException {
        ByteArrayOutputStream raw = new ByteArrayOutputStream();
        while (!raw.toString("US-ASCII").endsWith("\r\n\r\n")) {
            int one = in.read();
            if (one < 0) {
                throw new IOException("hung up");
            }
            raw.write(one);
        }
        return raw.toString("US-ASCII");
    }

    private static byte[] body(InputStream in, String head) throws IOException {
        for (String line : head.split("\r\n")) {
            if (line.toLowerCase().startsWith("content-length:")) {
                return in.readNBytes(Integer.parseInt(line.substring(15).trim()));
            }
        }
        return new byte[0];
    }
}
