package io.fedrap.core;

/**
 * Epsilon of what a device has taken part in: user level, no amplification.
 *
 * <p>A device that took part in n releases with charged noise z is covered by one Gaussian mechanism
 * with mu = sqrt(n)/z, whoever else took part.
 */
final class Accounting {
    private Accounting() {}

    /**
     * The z of independent noise without a clipping bit that costs the same; 0 without noise.
     *
     * <p>mu^2 = |c|^2·(1/z^2 + 1/(2·bitNoise)^2) in one step (Andrew et al. 2021, Theorem 1).
     *
     * @param bitNoise NaN where the clip does not adapt
     */
    static double chargedNoise(double noise, double[] coefficients, double bitNoise) {
        if (noise <= 0) {
            return 0.0;
        }
        double norm = 0.0;
        for (double c : coefficients) {
            norm = StrictMath.hypot(norm, c);
        }
        double bit = Double.isNaN(bitNoise) ? 0.0 : noise / (2.0 * bitNoise);
        return noise / (norm * StrictMath.hypot(1.0, bit));
    }

    /** What a device is charged after so many releases with charged noise z. */
    static double chargedEpsilon(long participations, double noise, double delta) {
        if (participations == 0) {
            return 0.0;
        }
        double mu = noise > 0 ? Math.sqrt(participations) / noise : Double.POSITIVE_INFINITY;
        return gaussianEpsilon(mu, delta);
    }

    /** The smallest epsilon of a mu-Gaussian mechanism at delta, to 1e-9, from above. */
    static double gaussianEpsilon(double mu, double delta) {
        if (!(delta > 0 && delta < 1 && mu >= 0)) { // also refuses NaN
            throw new IllegalArgumentException("need delta in (0, 1) and mu >= 0");
        }
        if (mu == 0 || Double.isInfinite(mu)) {
            return mu;
        }
        if (gaussianDelta(mu, 0.0) <= delta) {
            return 0.0;
        }
        double low = 0.0;
        double high = 1.0;
        while (gaussianDelta(mu, high) > delta) {
            low = high;
            high *= 2;
        }
        while (high - low > 1e-9 * Math.max(1.0, high)) {
            double middle = (low + high) / 2;
            if (gaussianDelta(mu, middle) > delta) {
                low = middle;
            } else {
                high = middle;
            }
        }
        return high;
    }

    /** The delta of a mu-Gaussian mechanism at epsilon (Balle and Wang 2018, Eq. 6). */
    private static double gaussianDelta(double mu, double epsilon) {
        double near = mu / 2 - epsilon / mu;
        double far = mu / 2 + epsilon / mu;
        if (far < 30) {
            return phi(near) - StrictMath.exp(epsilon) * phi(-far);
        }
        // Far out e^epsilon overflows and the tail underflows; their product is exp(-near^2/2)
        // times the Mills ratio of `far`, whose asymptotic series is good to 1e-9 here.
        double tail = 1.0 / (far * far);
        double mills = (1.0 - tail + 3.0 * tail * tail - 15.0 * tail * tail * tail) / far;
        return phi(near) - StrictMath.exp(-near * near / 2) * mills / Math.sqrt(2 * Math.PI);
    }

    private static double phi(double x) {
        return 0.5 * erfc(-x / Math.sqrt(2));
    }

    /** 1 - erf(x), to twelve digits also where it is tiny; the JDK has none. */
    static double erfc(double x) {
        if (x < 0) {
            return 2.0 - erfc(-x);
        }
        if (x < 2.5) {
            // erf x = 2/sqrt(pi)·exp(-x^2)·sum_n 2^n x^(2n+1)/(2n+1)!!: no terms cancel.
            double term = x;
            double sum = x;
            for (int n = 1; term > 1e-17 * sum; n++) {
                term *= 2.0 * x * x / (2 * n + 1);
                sum += term;
            }
            return 1.0 - 2.0 / Math.sqrt(Math.PI) * StrictMath.exp(-x * x) * sum;
        }
        // exp(-x^2)/sqrt(pi) / (x + (1/2)/(x + (2/2)/(x + (3/2)/(x + …)))), from the inside out.
        double fraction = x;
        for (int n = 100; n >= 1; n--) {
            fraction = x + 0.5 * n / fraction;
        }
        return StrictMath.exp(-x * x) / (Math.sqrt(Math.PI) * fraction);
    }
}
