"""Eq. 3 of one device over unique rows, and its gradients. Means, not sums.

A row j that comes p_j times as a positive and q_j times as a negative among the N samples of a
step has weight w_j = (p_j + q_j)/N and liked share l_j = p_j/N. With z_j = <u, C_j + D_j> + b:

    loss = sum_j w_j·log(1 + e^z_j) - l_j·z_j                 mean cross entropy (Eq. 1)
           - lambda·sum_j w_j·|D_j - C_j|^2 / k               rows that own a D (Eq. 2)
           + mu·sum_j w_j·|C_j|_1 / k                         or |C_j|^2 / k (FedRAP-L2)

    g_j = w_j·sigmoid(z_j) - l_j                              d loss / d z_j
    du = sum_j g_j (D_j + C_j)        db = sum_j g_j
    dD_j = g_j·u - e_j (D_j - C_j)    dC_j = g_j·u + e_j (D_j - C_j)     e_j = 2·lambda·w_j/k

The signs of e_j follow from Eq. 3, which maximises the difference; the paper's appendix has
them the other way round. Rows come in two blocks, those that own a row of D and those that do
not, so that no index is needed anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]
Penalty = Literal["l1", "l2", "none"]


@dataclass(frozen=True, eq=False)
class LocalModel:
    """What one device trains, or the gradient of it."""

    user: Vector  # (k,) u
    bias: float  # b
    personal: Matrix  # (P, k) D of the rows that own one
    own: Matrix  # (P, k) C of the same rows
    other: Matrix  # (N, k) C of the rows without a D


@dataclass(frozen=True, eq=False)
class Samples:
    """One step's samples, as shares of their number, in the two blocks."""

    own_weights: Vector  # (P,) w_j
    own_liked: Vector  # (P,) l_j
    other_weights: Vector  # (N,)
    other_liked: Vector  # (N,)


def sigmoid(z: Vector) -> Vector:
    """1/(1 + e^-z) without overflow, however large z is."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * z)))


def logits(model: LocalModel) -> tuple[Vector, Vector]:
    """z of both blocks: (P,) and (N,)."""
    own = (model.personal + model.own) @ model.user + model.bias
    return own, model.other @ model.user + model.bias


def cross_entropy(z: Vector, weights: Vector, liked: Vector) -> float:
    """Mean of -log sigmoid(z) over positives and -log(1 - sigmoid(z)) over negatives."""
    return float(weights @ np.logaddexp(0.0, z) - liked @ z)


def mean_difference(personal: Matrix, own: Matrix, weights: Vector) -> float:
    """Eq. 2 as a mean: sum_j w_j·|D_j - C_j|^2 / k."""
    return float(weights @ np.mean((personal - own) ** 2, axis=1))


def mean_size(rows: Matrix, weights: Vector, penalty: Penalty) -> float:
    """The last term of Eq. 3 as a mean: sum_j w_j·|C_j|_1 / k, or |C_j|^2 / k."""
    if penalty == "none":
        return 0.0
    sizes = np.abs(rows) if penalty == "l1" else rows**2  # (n, k)
    return float(weights @ sizes.mean(axis=1))


def loss(
    model: LocalModel, samples: Samples, apart: float, sparse: float, penalty: Penalty
) -> float:
    """Eq. 3 of one device with lambda = `apart` and mu = `sparse`."""
    own, other = logits(model)
    fit = cross_entropy(own, samples.own_weights, samples.own_liked)
    fit += cross_entropy(other, samples.other_weights, samples.other_liked)
    difference = mean_difference(model.personal, model.own, samples.own_weights)
    size = mean_size(model.own, samples.own_weights, penalty)
    size += mean_size(model.other, samples.other_weights, penalty)
    return fit - apart * difference + sparse * size


def fit_gradients(model: LocalModel, samples: Samples) -> LocalModel:
    """Gradient of the cross entropy alone. The blocks of D and C have the same one."""
    z_own, z_other = logits(model)
    own = samples.own_weights * sigmoid(z_own) - samples.own_liked  # (P,) g_j
    other = samples.other_weights * sigmoid(z_other) - samples.other_liked  # (N,)
    user = own @ (model.personal + model.own) + other @ model.other  # (k,)
    row = np.outer(own, model.user)  # (P, k)
    return LocalModel(user, float(own.sum() + other.sum()), row, row, np.outer(other, model.user))


def gradients(model: LocalModel, samples: Samples, apart: float) -> LocalModel:
    """Gradient of the smooth part of Eq. 3: cross entropy and the lambda term."""
    fit = fit_gradients(model, samples)
    push = 2.0 * apart * samples.own_weights / len(model.user)  # (P,) e_j
    pushed = push[:, None] * (model.personal - model.own)  # (P, k)
    return LocalModel(fit.user, fit.bias, fit.personal - pushed, fit.own + pushed, fit.other)
