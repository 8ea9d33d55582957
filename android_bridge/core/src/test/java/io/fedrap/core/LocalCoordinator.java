package io.fedrap.core;

import java.io.Closeable;
import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A coordinator on a socket of this machine, for tests of other modules: an app's view of one.
 *
 * <p>Its release has the items item-0 to item-7.
 */
public final class LocalCoordinator implements Closeable {
    private final HostileServer server;

    public LocalCoordinator() throws IOException {
        server = new HostileServer();
    }

    public String url() {
        return server.url();
    }

    /** Every path that was asked for. */
    public List<String> asked() {
        return new ArrayList<>(server.asked);
    }

    /** How many requests began like this. */
    public int count(String path) {
        int found = 0;
        for (String one : server.asked) {
            found += one.startsWith(path) ? 1 : 0;
        }
        return found;
    }

    /** Say no to what begins like this, and to come back after so many seconds. */
    public void refuse(String path, String code, double retryAfter) {
        byte[] body =
                HostileServer.ascii(
                        "{\"type\": \"" + Problem.PREFIX + code + "\", \"detail\": \"no\", \"retry_after\": "
                                + retryAfter + "}");
        server.on(path, out -> write(out, body));
    }

    private static void write(OutputStream out, byte[] body) throws IOException {
        out.write(
                HostileServer.ascii(
                        "HTTP/1.1 409 Conflict\r\nConnection: close\r\n"
                                + "Content-Type: application/problem+json\r\nContent-Length: "
                                + body.length + "\r\n\r\n"));
        out.write(body);
    }

    /** Hang up on what begins like this. */
    public void hangUp(String path) {
        server.on(path, out -> {});
    }

    /** Leave what begins like this without an answer; the latch falls when it was asked for. */
    public CountDownLatch leaveWaiting(String path) {
        CountDownLatch asked = new CountDownLatch(1);
        CountDownLatch never = new CountDownLatch(1);
        server.on(
                path,
                out -> {
                    asked.countDown();
                    never.await(30, TimeUnit.SECONDS);
                });
        return asked;
    }

    /** Answer everything again. */
    public void honestAgain() {
        server.honestAgain();
    }

    /** Offers are for the next round from now on. */
    public void nextRound(int steps) {
        server.honest.step += steps;
        server.honest.round = new byte[16];
        server.honest.round[0] = (byte) server.honest.step;
    }

    @Override
    public void close() throws IOException {
        server.close();
    }
}
