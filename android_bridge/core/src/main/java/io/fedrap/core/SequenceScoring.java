package io.fedrap.core;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How both parts add up: z_j = solve·(u·C_j + d_j) + sequence·(q·C'_j + kappa·b_j), C' and b of the
 * sequence part.
 */
final class SequenceScoring {
    private static final double LARGEST = 1e6;

    final double solve;
    final double sequence;
    final double kappa; // how much popularity counts
    final double adapt; // eta, how far q follows what was not expected; 0 without order
    final TimeKernels kernels; // those that the rows were learnt with

    /** Throws MALFORMED_MESSAGE, also for fields that are not known. */
    SequenceScoring(Fields f) {
        f.only("solve", "sequence", "kappa", "longest", "ordered", "taus", "adapt");
        solve = f.number("solve", 0, LARGEST, 16.0);
        sequence = f.number("sequence", 0, LARGEST, 1.0);
        kappa = f.number("kappa", 0, LARGEST, 0.5);
        kernels = new TimeKernels(f);
        adapt = kernels.ordered ? f.number("adapt", 0, LARGEST, 0.0) : 0.0;
    }

    Map<String, Object> toMap() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("solve", solve);
        map.put("sequence", sequence);
        map.put("kappa", kappa);
        kernels.put(map);
        if (adapt > 0) { // off is left out
            map.put("adapt", adapt);
        }
        return map;
    }
}
