package io.fedrap.core;

import java.util.List;

/** A way to the coordinator that is checked before every request, so that a withdrawal ends it. */
final class ConsentedTransport implements Transport {
    private final Transport inner;
    private final Runnable check;

    /** {@code check} throws where nothing may leave any more. */
    ConsentedTransport(Transport inner, Runnable check) {
        this.inner = inner;
        this.check = check;
    }

    @Override
    public Enrolled enrol(String token, byte[] publicKey, Proof proof) {
        check.run();
        return inner.enrol(token, publicKey, proof);
    }

    @Override
    public byte[] renew(Signer signer, Proof proof, long nonce) {
        check.run();
        return inner.renew(signer, proof, nonce);
    }

    @Override
    public ReleaseMessage release(Long have) {
        check.run();
        return inner.release(have);
    }

    @Override
    public byte[] releaseOf(long version) {
        check.run();
        return inner.releaseOf(version);
    }

    @Override
    public List<byte[]> log(long since) {
        check.run();
        return inner.log(since);
    }

    @Override
    public ItemList catalogue(long start) {
        check.run();
        return inner.catalogue(start);
    }

    @Override
    public byte[][] attributes() {
        check.run();
        return inner.attributes();
    }

    @Override
    public byte[] attributePage(byte[] digest) {
        check.run();
        return inner.attributePage(digest);
    }

    @Override
    public Signed offer(Signer signer, long release, double wait) {
        check.run();
        return inner.offer(signer, release, wait);
    }

    @Override
    public Signed sendUpdate(Signer signer, byte[] round, byte[] body) {
        check.run();
        return inner.sendUpdate(signer, round, body);
    }

    @Override
    public byte[] questions() {
        check.run();
        return inner.questions();
    }

    @Override
    public Signed sendAnswer(Signer signer, byte[] question, byte[] body) {
        check.run();
        return inner.sendAnswer(signer, question, body);
    }

    /** Who wants to be forgotten needs no consent. */
    @Override
    public void forget(Signer signer) {
        inner.forget(signer);
    }

    @Override
    public void close() {
        inner.close();
    }
}
