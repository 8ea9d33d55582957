package io.fedrap.core;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The coordinator over HTTP: the addresses of spec/PROTOCOL.md 2. */
final class UrlTransport implements Transport {
    private final HttpCall http;

    UrlTransport(HttpCall http) {
        this.http = http;
    }

    @Override
    public Enrolled enrol(String token, byte[] publicKey, Proof proof) {
        byte[] body = Requests.enrol(token, publicKey, proof.kind, proof.blob);
        byte[] raw =
                call("POST", "/v1/enrol", body, Collections.emptyMap(), Fields.MAX_BYTES, 0).body;
        try {
            return Enrolled.decode(raw);
        } catch (FedRapException error) {
            throw notOurs(error);
        }
    }

    @Override
    public byte[] renew(Signer signer, Proof proof, long nonce) {
        byte[] raw = signed(signer, "/v1/renew", Requests.renew(nonce, proof.kind, proof.blob), 0);
        try {
            return Certificate.renewed(raw);
        } catch (FedRapException error) {
            throw notOurs(error);
        }
    }

    @Override
    public ReleaseMessage release(Long have) {
        String path = "/v1/releases/latest" + (have == null ? "" : "?have=" + have);
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("Accept-Encoding", "gzip");
        if (have != null) {
            headers.put("If-None-Match", "\"c" + have + "\"");
        }
        HttpCall.Answer answer = call("GET", path, new byte[0], headers, http.largest(), 0);
        if (answer.status == 304) {
            return null;
        }
        try {
            return ReleaseMessage.decode(answer.body, http.largest());
        } catch (FedRapException error) {
            throw notOurs(error);
        }
    }

    @Override
    public byte[] releaseOf(long version) {
        return zipped("/v1/releases/" + version, http.largest());
    }

    @Override
    public List<byte[]> log(long since) {
        String path = "/v1/log?since=" + since;
        byte[] raw = call("GET", path, new byte[0], Collections.emptyMap(), Fields.MAX_BYTES, 0).body;
        try {
            return Authority.logged(raw);
        } catch (FedRapException error) {
            throw notOurs(error);
        }
    }

    @Override
    public ItemList catalogue(long start) {
        byte[] raw = zipped("/v1/catalogue?start=" + start, http.largest());
        try {
            return ItemList.decode(raw, http.largest());
        } catch (FedRapException error) {
            throw notOurs(error);
        }
    }

    @Override
    public byte[][] attributes() {
        byte[] raw = zipped("/v1/attributes", Fields.MAX_BYTES);
        try {
            return AttributesEntry.message(raw);
        } catch (FedRapException error) {
            throw notOurs(error);
        }
    }

    @Override
    public byte[] attributePage(byte[] digest) {
        return zipped("/v1/attributes/" + Bytes.hex(digest), AttributesEntry.PAGE_BYTES);
    }

    @Override
    public Signed offer(Signer signer, long release, double wait) {
        byte[] raw = signed(signer, "/v1/offers", Requests.offer(release, wait), wait);
        try {
            return Signed.decode(raw);
        } catch (FedRapException error) {
            throw notOurs(error);
        }
    }

    @Override
    public Signed sendUpdate(Signer signer, byte[] round, byte[] body) {
        return receipt(signer, "/v1/rounds/" + Bytes.hex(round) + "/updates", body);
    }

    @Override
    public byte[] questions() {
        return call("GET", "/v1/questions?all=1", new byte[0], Collections.emptyMap(), Fields.MAX_BYTES, 0).body;
    }

    @Override
    public Signed sendAnswer(Signer signer, byte[] question, byte[] body) {
        return receipt(signer, "/v1/questions/" + Bytes.hex(question) + "/answers", body);
    }

    private Signed receipt(Signer signer, String path, byte[] body) {
        byte[] raw = signed(signer, path, body, 0);
        try {
            return Signed.decode(raw);
        } catch (FedRapException error) {
            throw notOurs(error);
        }
    }

    @Override
    public void forget(Signer signer) {
        byte[] raw = signed(signer, "/v1/forget", Requests.forget(), 0);
        try {
            Fields.ofMessage(raw, Fields.MAX_BYTES, "forgotten");
        } catch (FedRapException error) {
            throw notOurs(error);
        }
    }

    @Override
    public void close() {
        http.close();
    }

    /** The same for everybody, and large. */
    private byte[] zipped(String path, int limit) {
        Map<String, String> headers = Collections.singletonMap("Accept-Encoding", "gzip");
        return call("GET", path, new byte[0], headers, limit, 0).body;
    }

    private byte[] signed(Signer signer, String path, byte[] body, double wait) {
        try {
            return signedOnce(signer, path, body, wait);
        } catch (UpdateRefused refused) {
            // A proxy may have sent the request twice; a fresh nonce settles it.
            if (!refused.is("replayed")) {
                throw refused;
            }
        }
        return signedOnce(signer, path, body, wait);
    }

    private byte[] signedOnce(Signer signer, String path, byte[] body, double wait) {
        Map<String, String> headers = signer.headers("POST", path, body);
        return call("POST", path, body, headers, Fields.MAX_BYTES, wait).body;
    }

    /** A good answer: 200, or 304 without a body. */
    private HttpCall.Answer call(
            String method, String path, byte[] body, Map<String, String> headers, int limit, double wait) {
        HttpCall.Answer answer = http.exchange(method, path, body, headers, limit, wait);
        if (answer.status == 200 || answer.status == 304) {
            return answer;
        }
        Problem problem = Problem.read(answer.status, answer.body, answer.retryAfter);
        if (problem.code.isEmpty()) { // whatever is not one of ours means: try again later
            throw FedRapException.unreachable(
                    "status " + answer.status + " without a problem document that is known here");
        }
        throw new UpdateRefused(problem);
    }

    /** What is not a message of this protocol came from somebody else, or changed on the way. */
    private static FedRapException notOurs(FedRapException error) {
        return FedRapException.unreachable(
                "not an answer of this protocol: " + error.getMessage(), error);
    }
}
