package io.fedrap.core;

import java.io.ByteArrayOutputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.util.Locale;
import java.util.Map;
import java.util.Timer;
import java.util.TimerTask;
import java.util.zip.GZIPInputStream;

/**
 * One request and its answer over HttpURLConnection, within bounds whatever the peer does.
 *
 * <p>At most so many bytes, compressed or not; at most so many seconds in all; no redirects: a signed
 * body goes where it was signed for, or nowhere.
 */
final class HttpCall {
    /** Times in milliseconds, and sizes. */
    static final class Limits {
        static final Limits DEFAULT = new Limits(15_000, 30_000, 120_000, SharedMatrix.MAX_RELEASE_BYTES);
        final int connect;
        final int silence; // between two bytes
        final int whole;
        final int bytes; // of a release or a catalogue

        Limits(int connect, int silence, int whole, int bytes) {
            this.connect = connect;
            this.silence = silence;
            this.whole = whole;
            this.bytes = bytes;
        }
    }

    /** What came back. */
    static final class Answer {
        final int status;
        final byte[] body;
        final String retryAfter; // the header, or null

        Answer(int status, byte[] body, String retryAfter) {
            this.status = status;
            this.body = body;
            this.retryAfter = retryAfter;
        }
    }

    /** Counts what was received, packed. */
    static final class Counted extends FilterInputStream {
        long count;

        Counted(InputStream in) {
            super(in);
        }

        @Override
        public int read() throws IOException {
            int one = in.read();
            count += one < 0 ? 0 : 1;
            return one;
        }

        @Override
        public int read(byte[] part, int from, int size) throws IOException {
            int got = in.read(part, from, size);
            count += Math.max(0, got);
            return got;
        }
    }

    static final long UNPACKED_FLOOR = 1 << 20; // bytes that an answer may unpack to, however few came
    static final long UNPACKED_TIMES = 100; // and how often what came, where that is more
    private static final String AGENT = "fedrap/1"; // the same for everybody: versions tell apart

    private final String server;
    private final Cancellation cancellation;
    private final Limits limits;
    private Timer timer; // ends what takes too long

    HttpCall(String server, Cancellation cancellation, Limits limits) {
        this.server = server.replaceAll("/+$", "");
        this.cancellation = cancellation;
        this.limits = limits;
    }

    /**
     * Whatever the peer says.
     *
     * @throws FedRapException COORDINATOR_UNREACHABLE: no answer, or a longer one; STOPPED.
     */
    Answer exchange(
            String method, String path, byte[] body, Map<String, String> headers, int limit, double wait) {
        cancellation.check();
        int extra = (int) (1000 * wait);
        HttpURLConnection connection = null;
        TimerTask ending = null;
        try {
            connection = (HttpURLConnection) new URL(server + path).openConnection();
            HttpURLConnection open = connection;
            ending = endAfter(open, limits.whole + extra);
            cancellation.during(() -> endSoon(open));
            prepare(connection, method, headers, extra);
            return answered(connection, body, limit, System.nanoTime() + 1_000_000L * (limits.whole + extra));
        } catch (IOException | RuntimeException error) {
            cancellation.check(); // a socket that was closed under us says so in many words
            if (error instanceof FedRapException) {
                throw (FedRapException) error;
            }
            // Never its message: it may hold an address.
            throw FedRapException.unreachable(
                    "no answer: " + error.getClass().getSimpleName(), error);
        } finally {
            cancellation.during(null);
            if (ending != null) {
                ending.cancel();
            }
            if (connection != null && cancellation.isStopped()) {
                connection.disconnect();
            }
        }
    }

    private void prepare(
            HttpURLConnection connection, String method, Map<String, String> headers, int extra)
            throws IOException {
        connection.setRequestMethod(method);
        connection.setInstanceFollowRedirects(false);
        connection.setConnectTimeout(limits.connect);
        connection.setReadTimeout(limits.silence + extra);
        connection.setRequestProperty("User-Agent", AGENT);
        connection.setRequestProperty("Accept", "*/*");
        if (!headers.containsKey("Accept-Encoding")) { // or Android asks for gzip by itself
            connection.setRequestProperty("Accept-Encoding", "identity");
        }
        for (Map.Entry<String, String> one : headers.entrySet()) {
            connection.setRequestProperty(one.getKey(), one.getValue());
        }
    }

    private Answer answered(HttpURLConnection connection, byte[] body, int limit, long deadline)
            throws IOException {
        if (body.length > 0) {
            connection.setDoOutput(true);
            connection.setRequestProperty("Content-Type", "application/octet-stream");
            try (OutputStream out = connection.getOutputStream()) {
                out.write(body);
            }
        }
        int status = connection.getResponseCode();
        String after = connection.getHeaderField("Retry-After");
        InputStream stream =
                status >= 400 ? connection.getErrorStream() : connection.getInputStream();
        if (stream == null || status == 304) {
            return new Answer(status, new byte[0], after);
        }
        String coding = connection.getContentEncoding();
        try (InputStream raw = stream) {
            boolean zipped = coding != null && coding.toLowerCase(Locale.ROOT).equals("gzip");
            if (!zipped) {
                return new Answer(status, read(raw, null, limit, deadline), after);
            }
            Counted counted = new Counted(raw);
            InputStream unzipped = new GZIPInputStream(counted);
            return new Answer(status, read(unzipped, counted, limit, deadline), after);
        }
    }

    /** At most {@code limit} bytes, however much the peer sends or its bytes unpack to. */
    private byte[] read(InputStream in, Counted packed, int limit, long deadline)
            throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] part = new byte[1 << 15];
        for (int size = in.read(part); size >= 0; size = in.read(part)) {
            cancellation.check();
            if (out.size() + size > limit) {
                throw FedRapException.unreachable("an answer of more than " + limit + " bytes");
            }
            long most = packed == null ? limit : Math.max(UNPACKED_FLOOR, UNPACKED_TIMES * packed.count);
            if (out.size() + size > most) {
                throw FedRapException.unreachable(packed.count + " bytes that unpack to more than " + most);
            }
            if (System.nanoTime() - deadline > 0) {
                throw FedRapException.unreachable("an answer that takes more than " + limits.whole / 1000 + " s");
            }
            out.write(part, 0, size);
        }
        return out.toByteArray();
    }

    private synchronized TimerTask endAfter(HttpURLConnection connection, int milliseconds) {
        if (timer == null) {
            timer = new Timer("fedrap-deadline", true);
        }
        TimerTask task =
                new TimerTask() {
                    @Override
                    public void run() {
                        connection.disconnect();
                    }
                };
        timer.schedule(task, milliseconds);
        return task;
    }

    /** In another thread: closing may wait for a read that is under way. */
    private void endSoon(HttpURLConnection connection) {
        endAfter(connection, 0);
    }

    /** Bytes of a large answer: what fits neither here nor in memory is refused while it is read. */
    int largest() {
        return (int) Math.min(limits.bytes, Runtime.getRuntime().maxMemory() / 4);
    }

    synchronized void close() {
        if (timer != null) {
            timer.cancel();
            timer = null;
        }
    }
}
