package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** accounting.json: what a device is charged. */
class AccountingTest {
    @TestFactory
    Stream<DynamicTest> vectors() {
        return Vectors.each(
                "accounting",
                one -> {
                    double bit = one.get("bit_noise") == null ? Double.NaN : one.number("bit_noise");
                    double charged =
                            Accounting.chargedNoise(
                                    one.number("noise"), one.numbers("coefficients"), bit);
                    Vectors.close(one.number("charged_noise"), charged);
                    double epsilon =
                            Accounting.chargedEpsilon(
                                    one.integer("participations"), charged, one.number("delta"));
                    Vectors.close(one.number("epsilon"), epsilon);
                });
    }

    /** Known to more digits than are needed; both branches and their border. */
    @Test
    void erfcIsRightFarOut() {
        double[][] known = {
            {0, 1}, {0.5, 0.4795001221869535}, {1, 0.15729920705028513},
            {2.4999, 0.0004071699003334514}, {2.5001, 0.0004067342434706798},
            {5, 1.5374597944280349e-12}, {10, 2.088487583762545e-45}, {-1, 1.8427007929497148},
        };
        for (double[] one : known) {
            assertEquals(one[1], Accounting.erfc(one[0]), 1e-11 * one[1]);
        }
    }
}
