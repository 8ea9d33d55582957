"""From what an operator knows to settings that protect: how many devices, how many items, which
epsilon. `fedrap-coordinator init` writes what comes out, with the reason beside each value.

With a guarantee rounds are few and large, because what is charged grows with how often a device
takes part and noise is shared by all devices of a round: half of them in each, in turns (b = 2).
Without one a tenth is in each, or a fortieth where there is much to learn, and everybody is asked
ten times. Values were chosen on validation (ml-1m, ml-100k), docs/results.md and docs/poisoning.md
have the tables. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np

from fedrap_coordinator.domain.rounds import RoundLimits
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.privacy.planner import Wanted, default_delta, options
from fedrap_coordinator.settings import DAY, Enrolment, Settings
from fedrap_core.plan import (
    OFF,
    Privacy,
    Scoring,
    SequenceMethod,
    SequenceScoring,
    SolveMethod,
    TrendMethod,
)
from fedrap_core.sequence.server_step import SequenceLearning
from fedrap_core.solve.server_step import Learning

LEAST_COHORT = 20  # what a device's default floor wants
LARGEST_CLIP = 100.0  # what it takes, at the most
SPREAD_DAYS = 30.0  # that K lasts: a release every few hours or days, and a month for all to come
WINDOW_DAYS = 365.0  # in which K rounds may be joined: a device's default floor wants no less
# What 5 % of attackers get on ml-100k at epsilon 8, validation: .239 without, .003 with 1.5, .001
# with 1.35, at the same quality (docs/poisoning.md).
SCORE_CAP = 1.35
LOWEST = 0.2  # of the first step: what the schedules of both kinds have left at their end
PARTICIPATIONS = 10  # K without a guarantee: more brought nothing on validation
# Where a usual item is touched so often, steps and targets bound what is learnt, and not data: more
# and smaller rounds, as many participations. Validation of ml-1m (270 touches), the sequence part
# alone, rounds of a tenth, twentieth, fortieth, eightieth: .1798, .1786, .1831 with 100 targets,
# .1803, -, .1868, .1895 with 200. In fortieths 400 and 800 targets, out of as many newest, .1905
# and .1884, beside `solve` .1943 and .1957 (tenths and 100 targets: .1875). One set stands behind
# it. With less to learn from it does not pay, or harms: ml-100k (60 touches, what `init` writes,
# mean of three) .1349 in tenths, .1347 in nineteenths; lastfm-2k (5) alone .1391 and, in fortieths,
# .1318.
AMPLE = 150.0
AMPLE_TARGETS = AMPLE_WINDOW = 400
AMPLE_SHARE, USUAL_SHARE = 40, 10  # of how many devices one is asked in a round
CROWD = 100  # devices that a fortieth must have
# Of a row's usual length, in each step. In rounds of a fortieth .025 would bound the whole way as
# .1 does in tenths: .1871 on ml-1m (validation) where .1 has .1905 and holds 5 % of attackers, too.
ROW_STEP = 0.1
HOUR = 3600.0
# NDCG@10 under noise as a share of the same task without, by signal to noise of a typical row:
# 1,000, 2,500 and all users of ml-1m at epsilon 8, then all at 30 and 100 (six rounds keep no more
# than that), validation; ml-100k has .57 at .36. `bench_poisoning.py --shipped SET` gives `kept`.
KEPT = ((0.05, 0.15), (0.21, 0.34), (0.54, 0.52), (1.31, 0.72), (3.65, 0.86), (8.3, 0.9))
# The sequence part: with 32 targets and one decoy it has .165 on the validation of ml-1m after 100
# rounds of a tenth and .163 after 50, where `solve` has .137; after 30 on ml-100k it adds nothing
# yet; with six and the noise of epsilon 8 it has half of what `solve` has alone: three times as
# many numbers share one clip.
LEAST_SEQUENCE_ROUNDS = 50
LEAST_SEQUENCE_SIGNAL = 10.0  # of a typical row over its noise; nobody has measured less
MOST_SEQUENCE_ITEMS = 200_000  # its state has 1.5 kB for each, and a device's softmax runs over all
# NDCG@10 of the sequence part alone on validation: 32, 100 targets .1667, .1727 (ml-1m, one decoy,
# k 64); 1, 4 decoys .1667, .1707 (32 targets; the dense gradient .1702) and .1774, .1801 (100
# targets, k 128).
TARGETS, DECOYS = 100, 4
# Where the catalogue is small that weighs 8.8 % of a dense C (ml-100k, 1,682 items), while 38
# targets with one decoy stay below 6 %: .1359 and, with 40, .1337 there (validation, three seeds,
# both parts).
FEW_TARGETS, FEW_DECOYS, SMALL_CATALOGUE = 38, 1, 2_500
# k 64, 128: ml-1m (a million interactions) .1727, .1774; ml-100k .1202, .1165; amazon-video
# (23,000) .0606, .0576; citeulike-a (200,000, no order) was measured with 128 alone. A release
# has 2·(k + 4) bytes an item for it.
LARGE_DIM, LEAST_FOR_LARGE = 128, 150_000
MOST_DOWNLOAD = 16_000_000  # bytes of it that a device is asked to fetch
# Where a usual item is touched less than four times, the sequence part is held back more. Alone and
# beside `solve`, validation, dropout and weight decay .2 and .2, then .5 and .6: amazon-video (2.7
# touches, three seeds) .0565 and .0674, .0644 and .0698 (decay 1: .0661 and .0702). With a little
# more to learn from it no longer pays: amazon-sports (6.4) .0258 and .0350, .0268 and .0328 (decay
# alone .0277 and .0346); lastfm-2k (5.2, no order, so dropout .5 anyway) .1391 and .1496, .1414 and
# .1485; ml-100k (60), decay .4 and 1, .1310 beside `solve` becomes .1290 and .1254.
THIN, THIN_DROPOUT, THIN_DECAY = 4.0, 0.5, 0.6
# k of `solve` where nothing drowns it: validation, one seed, with 128 and 256, alone unless said.
# citeulike-a (16,980 items) .117 and .145; tafeng (23,554) .0547 and .0587, .0644 and .0681 where
# D borrows with rho 10; amazon-sports (18,357) .0273 and .0280; lastfm-2k (17,612) .1434 and .1414,
# in the mixture .1496 and .1509. 64, 128, 192 have .0655, .0677, .0660 on amazon-video (7,957
# items, three seeds, mixed), 128 and 256 .0692 and .0680 (one seed); ml-100k and ml-1m stay what
# they were measured with. Half of C at zero costs nothing there (.0671 and .1484 without zeros).
SOLVE_DIMS = ((10_000, 2 * LARGE_DIM), (5_000, LARGE_DIM))  # items from which on, and k
# What `solve` counts beside it, by interactions of a usual item: the best of 0, 1, 2, 4, 8, 16, 32
# on validation was 4 on ml-1m (270), 4 to 8 on ml-100k (60), 16 on amazon-video (3) and 16 to 32 on
# amazon-sports (6); without order, which `init` does not know of, 8 on lastfm-2k (5) and 1 to 4 on
# citeulike-a (12), where 32 takes a seventh away.
MIXES = ((AMPLE, 4.0), (10.0, 8.0), (0.0, 16.0))
# How far a device adapts its query to what it did lately, validation, in the mixture: 0, .25, .5
# have .1851, .1873, .1867 on ml-1m and .1328, .1358, .1389 on ml-100k (two seeds), and nothing on
# amazon-video. It is the device's own business: it costs no upload and no epsilon.
ADAPT = 0.25
# A row of its updates is hardly ever longer: with 100 targets and four decoys one in a thousand is
# longer than 12 on ml-100k, one in a hundred than 14 on amazon-video (trained).
USUAL_ROW = 15.0
TREND_ON = (
    "trend: devices tell what they touched lately, for trending(n); scores have it with, say,"
    " `trend = 4.0` in [scoring] and `contrast = 0.7` in [learning]: measure that with"
    " `fedrap-sim evaluate --split time`"
)
TREND_OFF = (
    "trend: off, because presets with a guarantee have few rounds, and what was touched lately is"
    " old news after the last; `trend` of [method] turns it on"
)
LEAST_SIGNAL = 0.3  # below it less than two fifths are kept, and popularity does nearly as well


@dataclass(frozen=True)
class Preset:
    """What suits guarantees of `epsilon` and above, chosen on the validation of ml-1m."""

    epsilon: float  # of USUAL_DEVICES
    dim: int  # k: less of it where noise is larger
    rounds: int
    clip: float
    ridge: float  # lambda_C: noise wants more of it

    @property
    def method(self) -> SolveMethod:
        """The device's side."""
        return SolveMethod(dim=self.dim)

    @property
    def learning(self) -> Learning:
        """The coordinator's side; half of C is zero after the noise, too."""
        return Learning(eta=0.5, decay=0.8, memory=0.9, ridge=self.ridge)

    @property
    def scoring(self) -> Scoring:
        """C from few clipped rounds is smaller, so u is held back less."""
        return Scoring(ridge=5.0)


USUAL_DEVICES = 6_040  # those of ml-1m, on which presets were chosen
# Each history copied ten times (60,400 devices), validation: at epsilon 1 the second one has .111
# where the last has .095, at epsilon 8 the first has .134 and the second .128.
PRESETS = (
    Preset(40.0, dim=64, rounds=10, clip=6.0, ridge=10.0),
    Preset(8.0, dim=48, rounds=6, clip=6.0, ridge=30.0),
    Preset(4.0, dim=24, rounds=6, clip=6.0, ridge=70.0),
    Preset(0.0, dim=24, rounds=4, clip=6.0, ridge=100.0),
)


def preset_for(epsilon: float, devices: int) -> Preset:
    """The preset of the largest epsilon that the guarantee reaches.

    Noise is shared by all of a round, and nearly 1/epsilon: twice the devices are worth twice the
    epsilon. Fewer than those of the measurement take nothing away.
    """
    reached = epsilon * max(1.0, devices / USUAL_DEVICES)
    return next(one for one in PRESETS if reached >= one.epsilon)


@dataclass(frozen=True)
class Expected:
    """What the operator knows, or guesses."""

    devices: int  # N, of people who will agree to take part
    items: int  # m
    epsilon: float | None = 8.0  # of one device in any window; None: no guarantee
    history: float = 50.0  # items that a device knows, in the mean
    spread_days: float = SPREAD_DAYS  # that K rounds of a device last; 0: as fast as devices come

    @property
    def interactions(self) -> float:
        """Of all devices together."""
        return self.devices * self.history

    @property
    def density(self) -> float:
        """p, the share of the catalogue in a mean history."""
        return min(1.0, max(1e-6, self.history / self.items))


@dataclass(frozen=True)
class Recipe:
    """Settings, and why."""

    settings: Settings
    why: dict[str, str]  # dotted key of the settings -> the reason, in a few words
    signal: float | None  # of a typical row, over the noise; None without noise
    sequence: str  # whether the sequence part is on, and why, in words
    trend: str  # the same of the trend

    @property
    def outlook(self) -> str:
        """What quality to expect, in words."""
        if self.signal is None:
            return (
                "quality: on ml-1m's size NDCG@10 .184, without the sequence part .136, where"
                " popularity has .018 and the best simple method, which sees everybody, .164;"
                " docs/results.md has other kinds of data"
            )
        low, high = sorted((kept(self.signal) * 0.9, min(1.0, kept(self.signal) * 1.1)))
        return (
            f"quality: about {low:.0%} to {high:.0%} of what the same devices would reach without"
            f" noise (a typical row is {self.signal:.1f} times its noise; docs/results.md)"
        )


def sequence_refusal(rounds: int, items: int | None, signal: float | None) -> str | None:
    """Why the sequence part is not worth it; None where it is.

    Args:
        items: of the catalogue, where they are known.
        signal: of a typical row over its noise; None without noise.
    """
    if signal is not None and signal < LEAST_SEQUENCE_SIGNAL:
        return (
            "noise is too large for it: three times as many numbers would share the clip, and"
            " `solve` alone keeps more"
        )
    if rounds < LEAST_SEQUENCE_ROUNDS:
        return f"{rounds} rounds are too few for it, which takes {LEAST_SEQUENCE_ROUNDS} or more"
    if items is not None and items > MOST_SEQUENCE_ITEMS:
        return f"{items} items are too many for it: it takes {MOST_SEQUENCE_ITEMS} at the most"
    return None


def sequence_dim(interactions: float, items: int) -> int:
    """k of the sequence part: more where there is more to learn from, less where it weighs much."""
    fits = 2 * (LARGE_DIM + 4) * items <= MOST_DOWNLOAD
    return LARGE_DIM if interactions >= LEAST_FOR_LARGE and fits else LARGE_DIM // 2


def solve_dim(items: int) -> int:
    """k of `solve` without noise: the largest that pays in such a catalogue and can be fetched."""
    for least, dim in SOLVE_DIMS:
        if items >= least and (dim + 4) * items <= MOST_DOWNLOAD:
            return dim
    return LARGE_DIM // 2


def sequence_method(interactions: float, items: int) -> SequenceMethod:
    """The device's side of the sequence part: as many targets as pay and weigh little beside C."""
    usual = SequenceMethod(
        dim=sequence_dim(interactions, items),
        targets=TARGETS,
        decoys=DECOYS,
        dropout=sequence_care(interactions, items)[0],
    )
    if items < SMALL_CATALOGUE:
        return msgspec.structs.replace(usual, targets=FEW_TARGETS, decoys=FEW_DECOYS)
    if interactions / items < AMPLE:
        return usual
    return msgspec.structs.replace(usual, targets=AMPLE_TARGETS, longest=AMPLE_WINDOW)


def cohort_size(devices: int, interactions: float, items: int) -> int:
    """Devices in a round without noise: fewer, and so more rounds, where there is much to learn."""
    usual = max(min(LEAST_COHORT, devices // 2), devices // USUAL_SHARE)
    small = devices // AMPLE_SHARE
    return small if interactions / items >= AMPLE and small >= CROWD else usual


def solve_learning(part: float, rounds: int) -> Learning:
    """The step of `solve` in rounds of this share of the devices: as far in each turn of all."""
    part = round(part, 3)  # 94 of 943 devices are a tenth
    return Learning(
        eta=round(min(0.5, 0.1 + part, 2.0 * part), 3),
        decay=round(0.22 ** (1 / rounds), 4),
        memory=round(max(Learning().memory, 1.0 - part), 3),
    )


def sequence_care(interactions: float, items: int) -> tuple[float, float]:
    """Dropout on devices and weight decay on the coordinator: more where there is less evidence."""
    if interactions / items < THIN:
        return THIN_DROPOUT, THIN_DECAY
    return SequenceMethod().dropout, SequenceLearning().decay


def sequence_mix(interactions: float, items: int) -> SequenceScoring:
    """How both parts add up before anybody has measured it."""
    evidence = interactions / items
    solve = next(one for least, one in MIXES if evidence >= least)
    return SequenceScoring(solve=solve, kappa=1.0, adapt=ADAPT)


def sequence_in_words(refusal: str | None, rounds: int) -> str:
    """For the operator."""
    if refusal is None:
        return (
            f"sequence part: on, because {rounds} rounds without much noise are enough for it;"
            " delete `sequence` of [method] to go without"
        )
    return f"sequence part: off, because {refusal}"


def kept(signal: float) -> float:
    """The share of quality that noise leaves; between measured points by the logarithm."""
    signals, shares = zip(*KEPT, strict=True)
    return float(np.interp(math.log(max(signal, 1e-9)), np.log(signals), shares))


def derive(expected: Expected, anyway: bool = False) -> Recipe:
    """Settings for a task; `anyway` also where devices are too few for the guarantee.

    Raises:
        ConfigError: a number is out of range, or devices are too few for the guarantee; says how
            many it would take.
    """
    if not 1 <= expected.items <= 10_000_000 or not 2 <= expected.devices <= 10**9:
        raise ConfigError("--devices must be from 2 to 1,000,000,000, --items to 10,000,000")
    if not 1 <= expected.history <= 5000:
        raise ConfigError("--history must be from 1 to 5000 items")
    if not 0 <= expected.spread_days <= WINDOW_DAYS:
        raise ConfigError(f"--spread must be from 0 to {WINDOW_DAYS:g} days, in which K renews")
    if expected.epsilon is None:
        return _open(expected)
    found = _guaranteed(expected, expected.epsilon)
    enough = expected.devices >= 2 * LEAST_COHORT and (found.signal or 0.0) >= LEAST_SIGNAL
    if not (enough or anyway):
        rule, dim = found.settings.privacy, found.settings.method.dim
        raise ConfigError(_too_few(expected, expected.epsilon, rule.noise, dim))
    return found


def row_signal(expected: Expected, cohort: int, noise: float, dim: int) -> float:
    """Of a typical row: the mean of a round over the length of its noise.

    A device spreads S over its L items and an item is in p of the histories, so the mean row is
    about p·S/sqrt(L) long; noise of z·S in each of k numbers, over n devices, z·S·sqrt(k)/n.
    """
    share = expected.density / math.sqrt(expected.history)
    return share * cohort / (noise * math.sqrt(dim))


def devices_needed(expected: Expected, noise: float, dim: int) -> int:
    """How many it takes for LEAST_SIGNAL, in two significant digits, upwards."""
    one = row_signal(expected, 1, noise, dim)
    exact = max(2 * LEAST_COHORT, 2 * LEAST_SIGNAL / one)
    unit = 10.0 ** max(0, math.floor(math.log10(exact)) - 1)
    return int(math.ceil(exact / unit) * unit)


def _guaranteed(expected: Expected, epsilon: float) -> Recipe:
    if not 0.01 <= epsilon <= 100:
        raise ConfigError("--epsilon must be from 0.01 to 100; or say --no-privacy")
    preset, cohort = preset_for(epsilon, expected.devices), expected.devices // 2
    delta = default_delta(expected.devices)
    wanted = Wanted(expected.devices, cohort, preset.rounds, epsilon, delta, separation=2)
    best = next(one for one in options(wanted) if one.mechanism == "banded")
    signal = row_signal(expected, cohort, best.noise, preset.dim)
    settings = _settings(
        expected,
        cohort,
        RoundLimits(
            min_updates=min(cohort, max(LEAST_COHORT, cohort // 4)), max_updates=cohort,
            total=preset.rounds, **_pace(expected, preset.rounds, 20 * HOUR, 2 * DAY),
        ),
        preset.method,
        Privacy(
            clip=preset.clip, row_clip=preset.clip / 3, noise=best.noise, separation=2,
            cap=best.cap, coefficients=best.coefficients, delta=delta, window_days=WINDOW_DAYS,
            spread_days=expected.spread_days,
        ),
        preset.learning,
        preset.scoring,
    )  # fmt: skip
    why = _reasons(expected) | {
        "round.max_updates": "half of the devices: noise is shared by all of a round",
        "round.min_updates": "a quarter of that, for a launch; more updates, less noise in C",
        "round.min_seconds": _why_pace(expected, "so that every phone was charging once"),
        "round.total": "few, because each one costs epsilon",
        "privacy.clip": "S; binds for nearly everybody, so that all count alike",
        "privacy.row_clip": "S/3: what one device can do to one item",
        "privacy.noise": f"z: epsilon {epsilon:g} for {best.cap} rounds of one device in a window",
        "privacy.coefficients": "correlated noise: each step takes back part of the one before",
        "privacy.separation": "b: never in two consecutive rounds",
        "privacy.cap": "K: rounds that one device joins in any window",
        "privacy.window_days": "then K renews; over years epsilon adds up: `privacy plan` says how",
        "method.dim": "k: numbers per item; less of it under more noise",
        "learning.eta": "every device takes part in every other round",
        "learning.decay": "by the last of so few rounds",
        "learning.ridge": "lambda_C: noise wants more of it",
        "learning.settled": "round.total",
        "scoring.ridge": "C of few noisy rounds is small: u is held back less",
    }
    refusal = sequence_refusal(preset.rounds, expected.items, signal)
    words = sequence_in_words(refusal or "presets with a guarantee have few rounds", preset.rounds)
    return Recipe(settings, why, signal, words, TREND_OFF)


def _open(expected: Expected) -> Recipe:
    """A tenth or a fortieth of the devices in a round, everybody ten times, no noise."""
    cohort = cohort_size(expected.devices, expected.interactions, expected.items)
    turns = max(2, expected.devices // cohort)
    total, part = PARTICIPATIONS * turns, cohort / expected.devices
    row_clip = _row_bound(cohort)
    refusal = sequence_refusal(total, expected.items, None)
    sequence = msgspec.structs.replace(
        sequence_method(expected.interactions, expected.items),
        scale=round(row_clip / USUAL_ROW, 3),
    )
    mix = sequence_mix(expected.interactions, expected.items)
    mix = msgspec.structs.replace(mix, longest=sequence.longest)
    settings = _settings(
        expected,
        cohort,
        RoundLimits(
            min_updates=min(cohort, max(LEAST_COHORT, cohort // 4)), max_updates=cohort,
            total=total, **_pace(expected, total, HOUR, DAY),
        ),
        SolveMethod(
            dim=solve_dim(expected.items), sequence=sequence if refusal is None else OFF,
            trend=TrendMethod(),
        ),
        Privacy(
            clip=LARGEST_CLIP, row_clip=row_clip, noise=0.0, separation=2,
            cap=PARTICIPATIONS, delta=default_delta(expected.devices), window_days=WINDOW_DAYS,
            spread_days=expected.spread_days,
        ),
        msgspec.structs.replace(
            solve_learning(part, total),
            row_step=ROW_STEP,
            min_support=PARTICIPATIONS + 1.0 if cohort >= LEAST_COHORT else 0.0,
        ),
        Scoring(sequence=mix if refusal is None else OFF),
    )  # fmt: skip
    why = _reasons(expected) | {
        "round.max_updates": _why_cohort(cohort, expected.devices),
        "round.min_updates": "a round with fewer is abandoned; devices see this number",
        "round.min_seconds": _why_pace(
            expected, "collected at least so long, unless max_updates come first"
        ),
        "round.total": "everybody is asked K times",
        "privacy.clip": "S: the most that a device's default floor takes",
        "privacy.row_clip": "2·sqrt(cohort/88): what one device can do to one item",
        "privacy.noise": "NO PRIVACY GUARANTEE: devices join only if the app asks for less by name",
        "privacy.separation": "b: never in two consecutive rounds",
        "privacy.cap": "K: rounds that one device joins in any window; more brought nothing",
        "privacy.window_days": "then K renews",
        "method.dim": "k: numbers per item, more from 5,000 and from 10,000 items on",
        "method.trend": "what was touched lately: `trending(n)`, and scores where [scoring] has it",
        "learning.eta": "twice the share of the devices in a round, at most a tenth more than it",
        "learning.decay": "a fifth of that in the last round",
        "learning.memory": "of the mean of x x': about a turn of all devices",
        "learning.settled": "round.total",
        "learning.row_step": "the furthest a row moves in a step: against promoted items",
        "learning.min_support": (
            "K + 1: one device alone never has an item recommended"
            if cohort >= LEAST_COHORT
            else "0: so few devices that every item is recommended"
        ),
    }
    if refusal is None:
        why |= {
            "method.sequence": "what usually comes next; rows within row_clip by its scale",
            "sequence.rounds": "round.total",
            "scoring.sequence": "how both parts add up; measure, and set what your data wants",
        }
        if settings.sequence.decay == THIN_DECAY:
            why["sequence.decay"] = "more than usual: an item is touched less than four times"
    return Recipe(settings, why, None, sequence_in_words(refusal, total), TREND_ON)


def _settings(
    expected: Expected,
    cohort: int,
    limits: RoundLimits,
    method: SolveMethod,
    privacy: Privacy,
    learning: Learning,
    scoring: Scoring,
) -> Settings:
    return Settings(
        round=limits,
        method=method,
        privacy=privacy,
        learning=msgspec.structs.replace(
            learning,
            population=expected.devices,
            density=float(f"{expected.density:.3g}"),
            settled=limits.total,
            score_cap=SCORE_CAP,
            lowest=LOWEST,
        ),
        sequence=_sequence_learning(expected, method, limits.total),
        scoring=scoring,
        enrolment=Enrolment(wait_steps=privacy.separation),
    )


def _sequence_learning(expected: Expected, method: SolveMethod, rounds: int) -> SequenceLearning:
    """The schedule ends with the task; the default where the part is off."""
    if method.sequence is OFF:
        return SequenceLearning()
    _, decay = sequence_care(expected.interactions, expected.items)
    return SequenceLearning(rounds=rounds, decay=decay)


def _why_cohort(cohort: int, devices: int) -> str:
    if cohort == devices // USUAL_SHARE:
        return "a tenth of the devices"
    if cohort < devices // USUAL_SHARE:
        return "a fortieth of the devices: with so many interactions more rounds learn more"
    return "fewer would be too few for a device's default floor, more than half for b"


def _pace(
    expected: Expected, rounds: int, least_seconds: float, most_seconds: float
) -> dict[str, float]:
    """How long a round lasts: all of them as long as K is spread over, or as fast as is sensible.

    A device rests for spread/K, and all of them together make K times `rounds`/K turns in that
    time; so each round finds as many rested devices as it asks for.
    """
    if expected.spread_days == 0:
        return {"min_seconds": least_seconds, "max_seconds": most_seconds}
    each = float(f"{expected.spread_days * DAY / rounds:.4g}")
    return {"min_seconds": each, "max_seconds": max(most_seconds, 2 * each)}


def _why_pace(expected: Expected, otherwise: str) -> str:
    return "spread_days / total: slots come evenly over it" if expected.spread_days else otherwise


def _why_spread(expected: Expected) -> str:
    if expected.spread_days == 0:
        return "K is spent as fast as devices come: a task may be over in a night"
    return "K of a device last so long: it rests a K-th of it; raise it once the model is there"


def _reasons(expected: Expected) -> dict[str, str]:
    """What is the same with and without a guarantee."""
    return {
        "learning.population": "N: devices expected",
        "learning.density": f"p: {expected.history:g} of {expected.items} items in a history",
        "learning.lowest": "a task that goes on beyond `total` keeps learning",
        "learning.score_cap": "no item scores higher than usual for as many fans: promoted items",
        "privacy.delta": "min(1e-5, N^-1.1)",
        "privacy.spread_days": _why_spread(expected),
        "enrolment.wait_steps": "at least b, so that enrolling again does not shorten the rest",
    }


def _row_bound(cohort: int) -> float:
    """What served against promoted items in cohorts of 20 to some hundred (docs/poisoning.md)."""
    return round(min(5.0, max(1.0, 2.0 * math.sqrt(cohort / 88))), 1)


def _too_few(expected: Expected, epsilon: float, noise: float, dim: int) -> str:
    needed = devices_needed(expected, noise, dim)
    return (
        f"{expected.devices} devices are too few for epsilon {epsilon:g} with {expected.items}"
        f" items: noise would drown what they say, and popular items would serve as well. It takes"
        f" about {needed} devices; fewer with a larger --epsilon, fewer items, or longer histories"
        f" (--history, now {expected.history:g}). --no-privacy guarantees nothing, by name"
    )
