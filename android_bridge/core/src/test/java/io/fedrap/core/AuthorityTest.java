package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** What the authority signs against the vectors: offers, receipts, releases and their log. */
class AuthorityTest {
    @TestFactory
    Stream<DynamicTest> whatIsSignedIsJudgedAsInPython() {
        return Vectors.each(
                "signed",
                one -> {
                    if (one.valid()) {
                        check(one);
                    } else {
                        one.refuses(() -> check(one));
                    }
                });
    }

    private static void check(Vectors.Case one) {
        switch (one.text("what")) {
            case "message":
                message(one);
                return;
            case "release":
                release(one);
                return;
            case "attributes":
                byte[][] told = AttributesEntry.message(one.bytes("bytes"));
                AttributesEntry signed =
                        AttributesEntry.checked(told[0], told[1], one.bytes("authority"));
                int number = 0;
                for (Object page : (List<?>) one.get("bodies")) {
                    byte[] digest = AttributesEntry.digest(told[1], number);
                    signed.check(number++, digest, Vectors.unhex((String) page));
                }
                return;
            case "log":
                List<byte[]> following = new ArrayList<>();
                for (Object entry : (List<?>) one.get("following")) {
                    following.add(Vectors.unhex((String) entry));
                }
                Authority.checkLeads(one.bytes("held"), following);
                return;
            default:
                boolean follows = Authority.followsAtOnce(one.bytes("held"), one.bytes("signed"));
                assertEquals(one.get("follows"), follows);
        }
    }

    private static void message(Vectors.Case one) {
        Signed signed = Signed.decode(one.bytes("bytes"));
        byte[] body = Authority.open(one.bytes("authority"), signed, one.text("type"));
        if (one.text("type").equals("offer")) {
            Offer.decode(body);
        } else {
            Authority.receipt(body);
        }
        assertArrayEquals(one.bytes("body"), body);
    }

    private static void release(Vectors.Case one) {
        byte[] raw = one.bytes("bytes");
        ReleaseMessage message = ReleaseMessage.decode(raw, 1 << 20);
        Authority.checkRelease(one.bytes("authority"), message);
        assertArrayEquals(one.bytes("digest"), Authority.digest(message.entry));
    }

    @Test
    void anAuthorityIsPinnedAsBytesHexOrBase64() {
        byte[] point = P256.point(P256.generate().getPublic());
        assertArrayEquals(point, Authority.point(Vectors.hex(point)));
        assertArrayEquals(point, Authority.point(Base64.getEncoder().encodeToString(point)));
        for (String bad : new String[] {"", "04", "not a key", Vectors.hex(new byte[65])}) {
            assertThrows(IllegalArgumentException.class, () -> Authority.point(bad));
        }
        assertThrows(IllegalArgumentException.class, () -> Authority.checked(new byte[65]));
    }
}
