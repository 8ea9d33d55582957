package io.fedrap.core;

import java.util.ArrayList;
import java.util.List;

/** Plain Java, float64, one problem after the other: the trainer that needs nothing. */
public final class JvmTrainer implements LocalTrainer {
    @Override
    public String name() {
        return "jvm";
    }

    @Override
    public String toString() {
        return "JvmTrainer()";
    }

    @Override
    public List<LocalShare> solve(List<ShareProblem> problems) {
        List<LocalShare> shares = new ArrayList<>(problems.size());
        for (ShareProblem problem : problems) {
            shares.add(solve(problem));
        }
        return shares;
    }

    private static LocalShare solve(ShareProblem problem) {
        int k = problem.dim();
        int n = problem.count();
        double[] system = problem.base().clone();
        double[] right = new double[k];
        for (int j = 0; j < n; j++) {
            int at = (problem.from + j) * k;
            Dense.addSquare(system, problem.own, at, k, problem.weights[j]);
            for (int i = 0; i < k; i++) {
                right[i] += problem.weights[j] * problem.own[at + i];
            }
        }
        Dense.mirror(system, k);
        double[] user = Dense.solve(system, right); // x
        double[] gradients = new double[n * k];
        double total = 0;
        double explained = 0;
        for (int j = 0; j < n; j++) {
            double weight = problem.weights[j];
            double predicted = Dense.dot(problem.own, (problem.from + j) * k, user, 0, k);
            for (int i = 0; i < k; i++) {
                gradients[j * k + i] = weight * (predicted - 1.0) * user[i];
            }
            total += weight;
            explained += weight * predicted;
        }
        // At the minimum the objective is sum a - sum a·(x·C); at x = 0 it is sum a.
        double loss = total > 0 ? 1.0 - explained / total : 1.0;
        return new LocalShare(user, gradients, Math.max(0.0, Math.min(1.0, loss)));
    }
}
