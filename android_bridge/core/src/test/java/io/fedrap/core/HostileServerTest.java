package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fedrap.core.FedRapException.Kind;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.time.Duration;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What should happen: whatever comes over the socket, the store is as it was and the error says what
 * is wrong. What should not happen: memory or time without bound, or bytes that go somewhere else.
 */
class HostileServerTest {
    private static final int LARGEST = 200_000;

    @TempDir File folder;
    private HostileServer server;
    private Config config;

    /** A device that was served well once: it holds release 1. */
    @BeforeEach
    void serveOnce() throws IOException {
        server = new HostileServer();
        config = new Config(folder).server(server.url()).token("a token");
        config.limits = new HttpCall.Limits(1000, 300, 600, LARGEST);
        try (FedRap device = FedRap.open(config)) {
            device.consent(true, "v1");
            device.record("item-1");
            device.record("item-5");
            device.sync();
            assertEquals(1, device.status().release);
        }
        server.honest.version = 2;
    }

    @AfterEach
    void end() throws IOException {
        server.close();
    }

    private void syncFails(Kind kind, String words) {
        assertTimeoutPreemptively(
                Duration.ofSeconds(20),
                () -> {
                    try (FedRap device = FedRap.open(config)) {
                        FedRapException error = assertThrows(FedRapException.class, device::sync);
                        assertEquals(kind, error.kind(), error.getMessage());
                        assertTrue(error.getMessage().contains(words), error.getMessage());
                    }
                });
        isIntact();
    }

    /** The old release is in use, nothing was charged, and an honest answer makes all well. */
    private void isIntact() {
        try (FedRap device = FedRap.open(config)) {
            assertEquals(2, device.status().interactions);
            assertEquals(1, device.status().release);
            assertEquals(0, device.status().rounds);
            assertEquals(3, device.recommend(3).size());
        }
    }

    private static byte[] chunk(byte[] part) {
        return Bytes.join(
                HostileServer.ascii(Integer.toHexString(part.length) + "\r\n"), part,
                HostileServer.ascii("\r\n"));
    }

    private static byte[] zipped(byte[] raw) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (GZIPOutputStream zip = new GZIPOutputStream(out)) {
            zip.write(raw);
        }
        return out.toByteArray();
    }

    private static byte[] head(String... headers) {
        return HostileServer.ascii(
                "HTTP/1.1 200 OK\r\nConnection: close\r\n" + String.join("\r\n", headers) + "\r\n\r\n");
    }

    @Test
    void aTruncatedAnswer() {
        byte[] whole = server.honest.rawRelease();
        server.on(
                "/v1/releases",
                out -> {
                    out.write(head("Content-Length: " + whole.length));
                    out.write(whole, 0, whole.length / 2);
                });
        syncFails(Kind.COORDINATOR_UNREACHABLE, "");
    }

    @Test
    void aTruncatedGzip() throws IOException {
        byte[] whole = zipped(server.honest.rawRelease());
        server.on(
                "/v1/releases",
                out -> {
                    out.write(head("Content-Encoding: gzip", "Content-Length: " + (whole.length - 20)));
                    out.write(whole, 0, whole.length - 20);
                });
        syncFails(Kind.COORDINATOR_UNREACHABLE, "no answer");
    }

    @Test
    void anEndlessBody() {
        server.on(
                "/v1/releases",
                out -> {
                    out.write(head("Transfer-Encoding: chunked"));
                    while (true) {
                        out.write(chunk(new byte[10_000]));
                    }
                });
        syncFails(Kind.COORDINATOR_UNREACHABLE, "more than " + LARGEST + " bytes");
    }

    @Test
    void aBodyThatSaysItIsLarge() {
        server.on(
                "/v1/releases",
                out -> {
                    out.write(head("Content-Length: 9999999999"));
                    while (true) {
                        out.write(new byte[10_000]);
                    }
                });
        syncFails(Kind.COORDINATOR_UNREACHABLE, "more than");
    }

    @Test
    void aSmallAnswerDoesNotUnpackToALargeOne() throws IOException {
        byte[] bomb = zipped(new byte[29_000_000]);
        assertTrue(bomb.length < 30_000);
        config.limits = new HttpCall.Limits(1000, 300, 5000, SharedMatrix.MAX_RELEASE_BYTES);
        server.on(
                "/v1/releases",
                out -> {
                    out.write(head("Content-Encoding: gzip", "Content-Length: " + bomb.length));
                    out.write(bomb);
                });
        syncFails(Kind.COORDINATOR_UNREACHABLE, "unpack");
    }

    @Test
    void aReleaseOfMoreRowsThanTheCatalogueHas() {
        int rows = 4_000_000;
        Map<String, Object> release = Fields.start("release");
        release.putAll(
                Export.map(
                        "task", MadeCoordinator.TASK, "version", 2, "step", 1, "size", rows,
                        "dim", 8, "catalogue", 1, "scoring", Export.map("name", "solve"), "model",
                        new byte[32], "scales", new byte[4 * rows], "bitmap", new byte[rows], "values",
                        new byte[0]));
        byte[] raw = MsgPack.encode(server.honest.signed(release));
        config.limits = new HttpCall.Limits(1000, 300, 5000, SharedMatrix.MAX_RELEASE_BYTES);
        server.on(
                "/v1/releases",
                out -> {
                    out.write(head("Content-Length: " + raw.length));
                    out.write(raw);
                });
        syncFails(Kind.BROKEN_MODEL, "catalogue");
    }

    @Test
    void aGzipBomb() throws IOException {
        byte[] bomb = zipped(new byte[50_000_000]);
        assertTrue(bomb.length < LARGEST);
        server.on(
                "/v1/releases",
                out -> {
                    out.write(head("Content-Encoding: gzip", "Content-Length: " + bomb.length));
                    out.write(bomb);
                });
        syncFails(Kind.COORDINATOR_UNREACHABLE, "more than");
    }

    @Test
    void aSlowDripOfTheBody() {
        server.on(
                "/v1/releases",
                out -> {
                    out.write(head("Content-Length: 100000"));
                    drip(out, (byte) 0);
                });
        syncFails(Kind.COORDINATOR_UNREACHABLE, "");
    }

    @Test
    void aSlowDripOfTheHeaders() {
        server.on(
                "/v1/releases",
                out -> {
                    out.write(HostileServer.ascii("HTTP/1.1 200 OK\r\nX: "));
                    drip(out, (byte) 'x');
                });
        syncFails(Kind.COORDINATOR_UNREACHABLE, "no answer");
    }

    private static void drip(java.io.OutputStream out, byte one) throws Exception {
        while (true) {
            out.write(one);
            out.flush();
            Thread.sleep(50);
        }
    }

    @Test
    void silence() {
        server.on("/v1/releases", out -> Thread.sleep(60_000));
        syncFails(Kind.COORDINATOR_UNREACHABLE, "no answer");
    }

    @Test
    void aRedirectElsewhere() throws IOException {
        try (HostileServer other = new HostileServer()) {
            String there = "HTTP/1.1 307 Go\r\nLocation: " + other.url() + "/v1/releases/latest\r\n"
                    + "Connection: close\r\nContent-Length: 0\r\n\r\n";
            server.on("/v1/releases", out -> out.write(HostileServer.ascii(there)));
            syncFails(Kind.COORDINATOR_UNREACHABLE, "status 307");
            assertTrue(other.asked.isEmpty());
        }
    }

    @Test
    void aPageOfSomebodyElse() {
        server.on(
                "/v1/releases",
                out -> HostileServer.good(out, HostileServer.ascii("<html>Please log in</html>")));
        syncFails(Kind.COORDINATOR_UNREACHABLE, "not an answer of this protocol");
    }

    @Test
    void aReleaseWithAnotherHash() {
        byte[] raw = server.honest.rawRelease();
        raw[valueIn(raw)] ^= 2;
        server.on("/v1/releases", out -> HostileServer.good(out, raw));
        syncFails(Kind.BROKEN_MODEL, "hash");
    }

    /** Where a value of C is in the bytes of a release: the entry follows the values. */
    private static int valueIn(byte[] raw) {
        return new String(raw, StandardCharsets.ISO_8859_1).indexOf("entry") - 3;
    }

    @Test
    void anOlderReleaseAndACatalogueWithoutItsRows() {
        server.honest.version = 0;
        syncFails(Kind.FORKED_LOG, "lies behind");
        byte[] none =
                MadeCoordinator.raw(
                        "catalogue", "version", 9, "start", 100, "count", 0, "items", new byte[0],
                        "retired", new byte[0]);
        server.honest.version = 2;
        server.on("/v1/catalogue", out -> HostileServer.good(out, none));
        try (FedRap device = FedRap.open(config)) {
            device.sync(); // the catalogue is known, so nobody asks for it
            assertEquals(2, device.status().release);
        }
    }

    @Test
    void problemDocumentsThatAreNone() {
        for (String body :
                new String[] {
                    "<html>", "{\"type\": 7}", "{\"type\": \"urn:fedrap:problem:unheard-of\"}", "",
                    new String(new char[5000]).replace("\0", "["), "{\"retry_after\": 5}"
                }) {
            server.on("/v1/releases", out -> refuse(out, body));
            syncFails(Kind.COORDINATOR_UNREACHABLE, "status 503");
        }
        for (String after : new String[] {"-5", "1e400", "\"soon\"", "null", "1e12"}) {
            String document = "{\"type\": \"urn:fedrap:problem:unavailable\", \"retry_after\": " + after + "}";
            server.on("/v1/releases", out -> refuse(out, document));
            try (FedRap device = FedRap.open(config)) {
                RoundReport report = device.runRound();
                assertEquals("unavailable", report.blockedBy, after);
                assertNull(report.retryAfter, after);
            }
        }
        isIntact();
    }

    private static void refuse(java.io.OutputStream out, String body) throws IOException {
        out.write(
                HostileServer.ascii(
                        "HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: " + body.length() + "\r\n\r\n" + body));
    }

    @Test
    void aCertificateThatAnotherSigned() {
        Vectors.Case good = Vectors.cases("certificate").get(0);
        byte[] stranger = P256.point(P256.generate().getPublic());
        byte[] enrolled =
                MadeCoordinator.raw(
                        "enrolled", "device", new byte[16], "task", new byte[16],
                        "certificate", good.bytes("signed"), "authority", stranger);
        server.on("/v1/enrol", out -> HostileServer.good(out, enrolled));
        Exception[] heard = new Exception[1];
        config.onError(error -> heard[0] = error);
        try (FedRap device = FedRap.open(config)) {
            assertEquals(Eligibility.UNREACHABLE, device.runRound().blockedBy);
            assertTrue(heard[0].getMessage().contains("not a certificate of our authority"));
            assertFalse(device.status().enrolled);
        }
        isIntact();
    }

    @Test
    void aReceiptForOtherBytesLeavesTheUpdateWaiting() {
        server.on(
                "/v1/rounds",
                out ->
                        HostileServer.good(
                                out,
                                server.honest.rawSigned(
                                        MadeCoordinator.raw(
                                                "accepted", "round", new byte[16], "digest", new byte[32]))));
        try (FedRap device = FedRap.open(config)) {
            assertEquals(Eligibility.UNREACHABLE, device.runRound().blockedBy);
            assertEquals(1, device.status().pending);
            server.honestAgain();
            assertTrue(device.runRound().joined);
            assertEquals(0, device.status().pending);
            assertEquals(1, device.status().rounds);
        }
    }

    @Test
    void aSealingKeyThatSomebodyOnTheWayChangedGetsNothing() {
        MadeCoordinator relay = new MadeCoordinator(); // another authority, another sealing key
        relay.version = 2;
        server.on("/v1/offers", out -> HostileServer.good(out, relay.rawSigned(relay.rawOffer())));
        try (FedRap device = FedRap.open(config)) {
            assertEquals(Eligibility.NOT_SIGNED, device.runRound().blockedBy);
            assertEquals(Eligibility.NOT_SIGNED, device.status().blockedBy);
            assertEquals(0, device.status().rounds);
            assertTrue(server.asked.stream().noneMatch(path -> path.startsWith("/v1/rounds")));
            server.honestAgain();
            assertTrue(device.runRound().joined);
            assertEquals(null, device.status().blockedBy);
        }
    }

    @Test
    void aForgedReceiptLeavesTheUpdateWaiting() {
        MadeCoordinator relay = new MadeCoordinator();
        byte[] forged = MadeCoordinator.raw("accepted", "round", new byte[16], "digest", new byte[32]);
        server.on("/v1/rounds", out -> HostileServer.good(out, relay.rawSigned(forged)));
        try (FedRap device = FedRap.open(config)) {
            assertEquals(Eligibility.NOT_SIGNED, device.runRound().blockedBy);
            assertEquals(1, device.status().pending);
        }
    }

    @Test
    void anotherHistoryThanTheOneThatWasSeen() {
        server.honest.log.put(1L, fork().log.get(1L)); // release 2 follows from another release 1
        syncFails(Kind.FORKED_LOG, "another history");
        server.honest.version = 1;
        server.honest.scoring = "paper"; // another release 1
        server.on("/v1/releases", out -> HostileServer.good(out, server.honest.rawRelease()));
        syncFails(Kind.FORKED_LOG, "two releases 1");
    }

    private MadeCoordinator fork() {
        MadeCoordinator other = new MadeCoordinator();
        other.scoring = "paper";
        other.rawRelease();
        return other;
    }

    @Test
    void aReleaseThatNobodySigned() {
        MadeCoordinator stranger = new MadeCoordinator();
        stranger.version = 2;
        config.authority(P256.point(server.honest.authority.getPublic()));
        server.on("/v1/releases", out -> HostileServer.good(out, stranger.rawRelease()));
        syncFails(Kind.SIGNATURE_INVALID, "not signed");
    }

    @Test
    void anotherAuthorityThanTheAppPins() {
        try (FedRap device = FedRap.open(config)) {
            assertTrue(device.runRound().joined);
        }
        int asked = server.asked.size();
        config.authority(P256.point(P256.generate().getPublic()));
        try (FedRap device = FedRap.open(config)) {
            assertEquals(Eligibility.ANOTHER_AUTHORITY, device.runRound().blockedBy);
            FedRapException error = assertThrows(FedRapException.class, device::sync);
            assertEquals(Kind.ANOTHER_AUTHORITY, error.kind());
        }
        assertEquals(asked, server.asked.size(), "nothing was sent");
    }

    @Test
    void offersOfGarbage() {
        byte[] good = server.honest.rawSigned(server.honest.rawOffer());
        try (FedRap device = FedRap.open(config)) {
            for (int at = 0; at < good.length; at += 3) {
                byte[] bad = good.clone();
                bad[at] ^= 0x55;
                int cut = at;
                server.on(
                        "/v1/offers",
                        out -> HostileServer.good(out, cut % 2 == 0 ? bad : Arrays.copyOf(good, cut)));
                RoundReport report = device.runRound();
                // A flipped bit may also fall into what only the coordinator can check.
                assertTrue(report.joined || report.blockedBy != null);
                if (report.joined) {
                    break;
                }
            }
        }
    }

    @Test
    void stoppingEndsACallThatHangs() throws Exception {
        CountDownLatch hanging = new CountDownLatch(1);
        server.on(
                "/v1/releases",
                out -> {
                    hanging.countDown();
                    Thread.sleep(60_000);
                });
        config.limits = new HttpCall.Limits(1000, 30_000, 60_000, LARGEST);
        try (FedRap device = FedRap.open(config)) {
            RoundReport[] report = new RoundReport[1];
            Thread round = new Thread(() -> report[0] = device.runRound());
            round.start();
            hanging.await();
            device.stop();
            round.join(10_000);
            assertFalse(round.isAlive());
            assertEquals(Eligibility.STOPPED, report[0].blockedBy);
            server.honestAgain();
            assertTrue(device.runRound().joined, "it goes on another time");
        }
    }
}
