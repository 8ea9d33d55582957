package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Collections;
import java.util.Random;
import org.junit.jupiter.api.Test;

class JvmTrainerTest extends TrainerContract {
    @Override
    protected LocalTrainer trainer() {
        return new JvmTrainer();
    }

    /** What is solved is a solution: M x = sum_j a_j C_j. */
    @Test
    void theResidualIsRounding() {
        Random random = new Random(2);
        double[] own = random.doubles(30 * 12, -1, 1).toArray();
        double[] weights = random.doubles(30, 0.1, 50).toArray();
        double[] base = Dense.baseSystem(new double[144], 12, 0, 2.0);
        ShareProblem problem = new ShareProblem(own, 0, weights, base, 12);
        double[] x = trainer().solve(Collections.singletonList(problem)).get(0).user();
        for (int i = 0; i < 12; i++) {
            double left = 2.0 * x[i];
            for (int j = 0; j < 30; j++) {
                left += weights[j] * own[j * 12 + i] * (Dense.dot(own, j * 12, x, 0, 12) - 1.0);
            }
            assertEquals(0.0, left, 1e-10);
        }
    }
}
