package io.fedrap.core;

import java.security.KeyPair;
import java.util.Arrays;

/**
 * Becoming and staying a device of a task: enrolment, attestation, certificates that end.
 *
 * <p>The authority of a task signs certificates, offers, receipts and releases. An app pins its key, or
 * the device keeps the one that it enrolled with, and takes nothing from any other. A certificate is
 * renewed when two thirds of its time are over, or when the coordinator says that it has ended: the
 * device's clock may be wrong.
 */
final class Membership {
    private static final double RENEW_AFTER = 2.0 / 3.0; // of a certificate's time

    private final DeviceState state;
    private final Transport transport;
    private final String token; // null: this device may not enrol
    private final Proof.Source attest; // null: nothing to prove with
    private final Runnable check; // throws where nobody may be asked any more
    private final byte[] pinned; // null: the app pins no authority

    Membership(
            DeviceState state, Transport transport, String token, Proof.Source attest,
            Runnable check, byte[] pinned) {
        this.state = state;
        this.transport = transport;
        this.token = token;
        this.attest = attest;
        this.check = check;
        this.pinned = pinned;
    }

    /** Who this device is, with a certificate that will last; null without a token. */
    Credentials credentials() {
        Credentials known = state.credentials();
        if (known == null) {
            return token == null ? null : enrol();
        }
        return known.renewAt <= state.now() ? renew(known) : known;
    }

    /** With the same key until there is an answer, so that a lost one costs no token (3.11). */
    private Credentials enrol() {
        KeyPair key = state.enrollingKey();
        byte[] point = P256.point(key.getPublic());
        Proof proof = proof(Certificate.enrolChallenge(point, token));
        Enrolled answer = transport.enrol(token, point, proof);
        byte[] none = new byte[0];
        Credentials fresh =
                new Credentials(
                        answer.device, answer.task, P256.secret(key.getPrivate()), point, none,
                        answer.authority, Double.POSITIVE_INFINITY);
        authorityOf(fresh, pinned);
        if (answer.certificate.length > 0) {
            fresh = certified(fresh, answer.certificate, answer.authority, state.now());
        }
        state.keepCredentials(fresh);
        return fresh;
    }

    /**
     * Whose signatures this device takes; null before it is enrolled, where the app pins none.
     *
     * @throws FedRapException ANOTHER_AUTHORITY: the app pins another one than this device enrolled with;
     *     SIGNATURE_INVALID: it was enrolled when there was none, and none is pinned.
     */
    static byte[] authorityOf(Credentials known, byte[] pinned) {
        if (known == null) {
            return pinned;
        }
        boolean named = known.authority.length > 0;
        if (pinned != null && named && !Arrays.equals(known.authority, pinned)) {
            throw new FedRapException(
                    FedRapException.Kind.ANOTHER_AUTHORITY,
                    "the coordinator's authority is not the one that the app pins; if its key was changed "
                            + "on purpose, update the app and enrol this device anew");
        }
        if (!named && pinned == null) {
            throw new FedRapException(
                    FedRapException.Kind.SIGNATURE_INVALID,
                    "the coordinator names no authority that could sign offers; pin one, or erase this "
                            + "device and enrol it anew");
        }
        return named ? known.authority : pinned;
    }

    /** A new certificate for the same key; the ledger goes on as before. */
    Credentials renew(Credentials known) {
        long nonce = state.nextNonce();
        Proof proof = proof(Certificate.renewChallenge(known.publicKey, nonce));
        byte[] answer = transport.renew(new Signer(known, state), proof, nonce);
        // Where enrolment gave none, there is no authority to check it with: keep what we have.
        Credentials fresh =
                known.authority.length == 0
                        ? known
                        : certified(known, answer, known.authority, state.now());
        state.keepCredentials(fresh);
        return fresh;
    }

    private Proof proof(byte[] challenge) {
        if (attest == null) {
            return Proof.NONE;
        }
        check.run();
        try {
            return attest.prove(challenge);
        } catch (Exception error) { // the platform's service may be out of reach; try again later
            throw FedRapException.unreachable(
                    "no attestation: " + error.getClass().getSimpleName(), error);
        }
    }

    /**
     * The same device with a new certificate (3.6).
     *
     * @throws FedRapException COORDINATOR_UNREACHABLE: not for this device, or not signed by this
     *     authority.
     */
    static Credentials certified(Credentials known, byte[] signed, byte[] authority, double now) {
        Certificate certificate;
        try {
            certificate = Certificate.read(authority, signed);
        } catch (FedRapException error) {
            throw FedRapException.unreachable(
                    "not a certificate of our authority: " + error.getMessage(), error);
        }
        boolean ours =
                Arrays.equals(certificate.device, known.device)
                        && Arrays.equals(certificate.task, known.task)
                        && Arrays.equals(certificate.publicKey, known.publicKey);
        if (!ours) {
            throw FedRapException.unreachable("a certificate of another device");
        }
        double lifetime = certificate.expiresAt - certificate.issuedAt;
        double renewAt = lifetime > 0 ? now + RENEW_AFTER * lifetime : Double.POSITIVE_INFINITY;
        return new Credentials(
                known.device, known.task, known.secret, known.publicKey, signed, authority, renewAt);
    }
}
