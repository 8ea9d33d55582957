"""The frozen values that say how a round is computed and how a release is used.

A `Plan` travels in the round's offer: the method with its scalars, and the privacy policy.
`Scoring` travels with the release: the few scalars a device needs to recommend.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec

from fedrap_core.privacy.accounting import charged_noise

Positive = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Dim = Annotated[int, msgspec.Meta(ge=1, le=512)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]

# What is off is left out of the bytes, so that devices which do not know it read the rest.
Off = msgspec.UnsetType
OFF = msgspec.UNSET


DAY = 86_400.0  # seconds
LONGEST = 5000  # interactions that a window may have
Taus = Annotated[tuple[Positive, ...], msgspec.Meta(min_length=1, max_length=16)]
Window = Annotated[int, msgspec.Meta(ge=2, le=LONGEST)]
TAUS = (0.3, 1.5, 5.0, 20.0, 100.0)
MOST_WEIGHTS = 1 << 22  # of targets x kernels x inputs: 32 MB on the device


class SequenceScoring(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How both parts add up: z_j = solve·<u, C_j + D_j> + sequence·(<q, C_j> + kappa·b_j).

    Each part has a C of its own. `solve` alone is solve 1 and sequence 0. What q is made of is as
    in the method: a release has the window and the kernels that its rows were learnt with.
    """

    solve: NotNegative = 16.0  # its scores are small: a softmax needs differences of several units
    sequence: NotNegative = 1.0
    kappa: NotNegative = 0.5  # how much popularity counts
    longest: Window = 200
    ordered: bool = True
    taus: Taus = TAUS
    adapt: NotNegative | Off = OFF  # eta, how far q follows what was not expected; needs order

    @property
    def kernels(self) -> int:
        """S, as in the method."""
        return len(self.taus) if self.ordered else 1

    @property
    def adapts(self) -> float:
        """eta; 0 where q is as all devices' histories made it."""
        return 0.0 if self.adapt is OFF or not self.ordered else self.adapt


class SequenceMethod(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The device's side of the sequence part: softmax over all items; sequence/ has the formulas.

    Where the order of a history means nothing, set ordered False: each item is then predicted
    from all others under one flat kernel, and a dropout of 0.5 suits.
    """

    dim: Dim = 64  # k
    targets: Annotated[int, msgspec.Meta(ge=1, le=5000)] = 32  # Q, most of them in one round
    longest: Window = 200  # newest interactions that count
    decoys: Annotated[int, msgspec.Meta(ge=1, le=16)] = 1  # of each target: more rows, less chance
    dropout: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.2  # share of a target's inputs
    ordered: bool = True
    taus: Taus = TAUS  # how many interactions each kernel lasts
    # All of it is multiplied by this before the clip, and divided by it after the sum: one S
    # bounds both parts, and this says how much of it is the sequence part's.
    scale: Positive = 1.0

    def __post_init__(self) -> None:
        """A plan must not make a device take more memory than it has."""
        if self.targets * self.kernels * self.longest > MOST_WEIGHTS:
            raise ValueError(f"targets x kernels x longest lies above {MOST_WEIGHTS}")

    @property
    def kernels(self) -> int:
        """S: one for each tau, or the flat one."""
        return len(self.taus) if self.ordered else 1


class TrendMethod(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The device's side of the trend: what it touched lately; trend.py has the formulas."""

    half_days: Annotated[float, msgspec.Meta(ge=0.01, le=3650)] = 7.0  # a touch counts half then
    # What a touch of just now is before the clip: how much of S the trend may take.
    scale: Positive = 1.0


class Scoring(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag="solve",
    tag_field="name",
):
    """How u and D follow from the history: solve.py holds the formulas.

    Where the order of a history means nothing, set beta 0 and gamma 1.
    """

    alpha: Positive = 5.0  # weight of an interaction against the unseen items
    w0: NotNegative = 0.5  # weight of every item of the catalogue as "not chosen"
    beta: NotNegative = 10.0  # extra weight of the newest interaction
    gamma: NotNegative = 0.1  # weight that never fades
    tau: Positive = 2.0  # how many interactions the extra weight lasts
    ridge: Positive = 60.0  # lambda, keeps u small and the solve regular
    rho: NotNegative = 0.3  # how much an item without a row in D borrows from its likes
    power: Positive = 4.0  # p, how alike two items must be to borrow
    sigma: Positive = 1.0  # how far D is trusted with a single interaction
    recent: Annotated[int, msgspec.Meta(ge=0, le=5000)] = 50  # newest items that own a row in D
    sequence: SequenceScoring | Off = OFF
    trend: NotNegative | Off = OFF  # how much counts what was touched lately


class PaperScoring(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag="paper",
    tag_field="name",
):
    """`paper` recommends with the u and D that the device trained; this is its first u."""

    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0  # as in PaperMethod


class SolveMethod(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag="solve",
    tag_field="name",
):
    """The device's side of `solve`: least squares; formulas in solve/device_share.py.

    Where the order of a history means nothing, set order 0.
    """

    dim: Dim = 32  # k
    alpha: Positive = 5.0
    w0: NotNegative = 1.0
    ridge: Positive = 10.0
    order: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5  # phi, weight of what came next
    prefixes: Annotated[int, msgspec.Meta(ge=0, le=5000)] = 100  # T, most of them in one round
    beta: NotNegative = 10.0  # recency within a prefix, as in Scoring
    gamma: NotNegative = 0.1
    tau: Positive = 3.0
    sequence: SequenceMethod | Off = OFF  # the second part, learnt in the same rounds
    trend: TrendMethod | Off = OFF  # what was touched lately, of the same rounds


class PaperMethod(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag="paper",
    tag_field="name",
):
    """The device's side of `paper`: Eq. 3 by local gradient steps; paper/ holds the formulas.

    Losses are means over samples and over the k entries of a row, hence the large `rate`. The
    defaults are the settings with which the published accuracy was reproduced on ML-100K.
    """

    dim: Dim = 32  # k
    curriculum: Literal["tanh", "fixed", "sin", "square", "frac"] = "tanh"
    apart: NotNegative = 1e-3  # v1, the largest lambda
    sparse: NotNegative = 1e-3  # v2, the largest mu
    penalty: Literal["l1", "l2", "none"] = "l1"  # what mu weighs: |C|_1, |C|_F^2 or nothing
    common: bool = True  # False is FedRAP-D: no shared items
    personal: bool = True  # False is FedRAP-C: no personal items
    epochs: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    negatives: Annotated[int, msgspec.Meta(ge=0, le=100)] = 4  # drawn for each positive
    batch: Annotated[int, msgspec.Meta(ge=16, le=1_000_000)] = 2048  # samples in one step
    rate: Positive = 1e3  # eta of C and D
    user_rate: Positive = 1e-4  # eta_u of u and the bias
    epoch_decay: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.95  # both rates, each epoch
    round_decay: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.97  # both rates, each step
    reach: Positive = 10.0  # the lambda term carries no row further apart (root mean square)
    spread: NotNegative = 1.0  # standard deviation that rows of D start with
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0  # of the u that all devices start from


class Adapt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A clip that follows a quantile of the norms (Andrew et al. 2021).

    Each device adds one bit to its share: did its update fit within S? The sum of the bits, each
    +1/2 or -1/2, gets noise of its own and is charged together with the update.
    """

    quantile: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5  # gamma, share of updates that fit
    rate: Annotated[float, msgspec.Meta(gt=0, le=2)] = 0.2  # eta_C, of log S in one step
    noise: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 5.0  # sigma_b, stddev of the bits' sum


Coefficient = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Privacy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a round may cost a device, enforced by the coordinator and again by the device."""

    clip: Positive = 30.0  # S, the largest norm of one device's whole update
    row_clip: Positive | None = None  # the largest norm of one row of it; before S
    noise: Annotated[float, msgspec.Meta(ge=0, le=1e4)] = 0.0  # z, stddev of the sum's noise / S
    # c: noise of a step takes back c_j of the noise j steps ago (banded.py); (1,) is independent
    coefficients: Annotated[tuple[Coefficient, ...], msgspec.Meta(min_length=1, max_length=64)] = (
        1.0,
    )
    separation: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 2  # b, in released steps
    cap: Count = 10  # K, rounds a device joins in any window
    # Days of such a window; 0, or where it is not said, K is for all of a device's life.
    window_days: Annotated[float, msgspec.Meta(ge=0, le=3650)] | Off = OFF
    # Days that K rounds of a device are spread over: it rests so long / K after each. 0, or where
    # it is not said, b alone keeps them apart.
    spread_days: Annotated[float, msgspec.Meta(ge=0, le=3650)] | Off = OFF
    delta: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 1e-5
    adapt: Adapt | None = None  # None: S stays as it is

    def __post_init__(self) -> None:
        """More bands than b would make a device's steps overlap, and mu larger than is claimed."""
        if self.coefficients[:1] != (1.0,):
            raise ValueError("coefficients start with 1")
        if len(self.coefficients) > self.separation:
            raise ValueError("there are more coefficients than steps of separation")
        if list(self.coefficients) != sorted(self.coefficients, reverse=True):
            raise ValueError("coefficients must not rise")  # or the noise could grow without end

    @property
    def window(self) -> float:
        """Seconds in which K rounds may be joined; infinite where K is for a life."""
        days = 0.0 if self.window_days is OFF else self.window_days
        return DAY * days if days > 0 else math.inf

    @property
    def rest(self) -> float:
        """Seconds between two rounds of a device, at the least; 0 where K is not spread."""
        return 0.0 if self.spread_days is OFF else DAY * self.spread_days / self.cap

    @property
    def charged_noise(self) -> float:
        """The z that a device is charged with: mu = sqrt(participations)/charged_noise."""
        bit = None if self.adapt is None else self.adapt.noise
        return charged_noise(self.noise, self.coefficients, bit)


class Split(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Private aggregation by two servers, of which none sees one device's items: split/.

    Where a plan has it, devices send shares to a leader and a helper, and nothing else is counted.
    """

    rows: Annotated[int, msgspec.Meta(ge=1, le=2000)] = 100  # H, most rows of one device
    peak: Annotated[float, msgspec.Meta(ge=0.01, le=1)] = 0.2  # the largest number of one, by S
    # The Gram matrix is multiplied by this before the clip, and divided by it after the sum. 1 has
    # the clip of `sealed`; more takes room from rows, which costs more than it saves in rounding
    # (docs/aggregation.md).
    gram_scale: Positive = 1.0  # c_T
    least: Annotated[int, msgspec.Meta(ge=2, le=1_000_000_000)] = 2  # devices; the helper holds it


Method = SolveMethod | PaperMethod
AnyScoring = Scoring | PaperScoring


def sequence_of(method: Method) -> SequenceMethod | None:
    """The sequence part of a method; None where it is off."""
    part = method.sequence if isinstance(method, SolveMethod) else OFF
    return None if part is OFF else part


def sequence_scoring(scoring: AnyScoring) -> SequenceScoring | None:
    """How the sequence part is scored; None where it is off."""
    part = scoring.sequence if isinstance(scoring, Scoring) else OFF
    return None if part is OFF else part


def trend_of(method: Method) -> TrendMethod | None:
    """The trend of a method; None where it is off."""
    part = method.trend if isinstance(method, SolveMethod) else OFF
    return None if part is OFF else part


def trend_weight(scoring: AnyScoring) -> float:
    """What the trend counts in scores; 0 where it is off."""
    weight = scoring.trend if isinstance(scoring, Scoring) else OFF
    return 0.0 if weight is OFF else weight


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One round's instructions. Its SHA-256, over the bytes as sent, binds every update."""

    method: Method = SolveMethod()
    privacy: Privacy = Privacy()
    min_updates: Count = 2  # no release from fewer devices
    split: Split | Off = OFF  # shares for two servers in place of sealed updates


def split_of(plan: Plan) -> Split | None:
    """How shares for two servers are made; None where updates are sealed to one."""
    return None if plan.split is OFF else plan.split
