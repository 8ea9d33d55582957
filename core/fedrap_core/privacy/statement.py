"""The privacy guarantee of a policy, in numbers and in words: the same on server and device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from fedrap_core.plan import DAY, Privacy
from fedrap_core.privacy.accounting import charged_epsilon, gaussian_epsilon, step_cost

UNIT = "one device with everything it ever recorded"
ADJACENCY = "zero-out: all contributions of the device replaced by zeros"
TRUSTED = (
    ("the aggregator process", "reads each share in memory, adds the noise, keeps the noise key"),
    ("the coordinator's database", "who took part and when; updates only sealed, until a release"),
    ("the network", "that a device talks to the coordinator, when, and padded sizes"),
    ("other users and the public", "nothing: they see releases, which is what epsilon bounds"),
)


@dataclass(frozen=True)
class Trust:
    """Who has to be trusted with what."""

    who: str
    with_what: str


TRUSTED_PAIR = (
    Trust("the coordinator and the helper together", "not to collude: both together read updates"),
    Trust("the coordinator alone", "who took part and when; of updates random numbers, of a sum one"
          " that has the helper's noise"),
    Trust("the helper alone", "that somebody took part; random numbers, and its own share of sums"),
    Trust("other users and the public", "nothing: they see releases, with the noise of both"),
)  # fmt: skip
WINDOWS = (2, 5, 10)  # whose composition is stated


@dataclass(frozen=True)
class Lifetime:
    """What several windows in a row cost a device that takes part as often as it may in each."""

    windows: int
    epsilon: float


@dataclass(frozen=True)
class Statement:
    """A policy as people can check it. `mu` and `epsilon` are infinite without noise.

    With a window they are of any window; `lifetime` has the price of several.
    """

    unit: str
    adjacency: str
    separation: int  # b, in released steps
    cap: int  # K
    window_days: float | None  # in which K rounds may be joined; None: in all of a life
    noise: float  # z
    coefficients: tuple[float, ...]  # c; (1,) is independent noise
    clip: float  # S
    row_clip: float | None
    clip_adapts: bool
    delta: float
    mu: float  # of a device that took part K times
    epsilon: float  # charged to such a device, unamplified
    assumptions: tuple[str, ...]
    trusted: tuple[Trust, ...]
    lifetime: tuple[Lifetime, ...] = ()  # empty where K is for a life


def state_policy(rule: Privacy, promised: float = 0.0) -> Statement:
    """What `rule` guarantees to a device that takes part as often as it may.

    `promised` is mu^2 of the device that will have most in the end, where earlier steps were made
    under other rules: the larger of the two is stated.
    """
    under_rule = rule.cap * step_cost(rule.charged_noise)
    mu = math.sqrt(max(under_rule, promised))
    return Statement(
        unit=UNIT if math.isinf(rule.window) else _unit(rule),
        adjacency=ADJACENCY,
        separation=rule.separation,
        cap=rule.cap,
        window_days=None if math.isinf(rule.window) else rule.window / DAY,
        noise=rule.noise,
        coefficients=rule.coefficients,
        clip=rule.clip,
        row_clip=rule.row_clip,
        clip_adapts=rule.adapt is not None,
        delta=rule.delta,
        mu=mu,
        epsilon=gaussian_epsilon(mu, rule.delta),
        assumptions=_assumptions(rule, promised > under_rule * (1 + 1e-9)),
        trusted=tuple(Trust(who, what) for who, what in TRUSTED),
        lifetime=() if math.isinf(rule.window) else _lifetime(mu, rule.delta),
    )


def _unit(rule: Privacy) -> str:
    return f"one device with everything it contributes in any {rule.window / DAY:g} days"


def _lifetime(mu: float, delta: float) -> tuple[Lifetime, ...]:
    """mu^2 adds up over windows: no two participations overlap, on whichever side of a border."""
    return tuple(Lifetime(n, gaussian_epsilon(math.sqrt(n) * mu, delta)) for n in WINDOWS)


def epsilon_against(rule: Privacy, promised: float = 0.0) -> dict[str, float]:
    """Of `split`, for a device that takes part as often as it may: against whom which epsilon.

    Each server adds noise of z. Against one of them the other's alone counts; the public sees both,
    which is z·sqrt(2). What earlier steps cost is in all of them.
    """
    one = max(rule.cap * step_cost(rule.charged_noise), promised)
    bit = rule.adapt
    both = msgspec.structs.replace(
        rule,
        noise=rule.noise * math.sqrt(2.0),
        adapt=None if bit is None else msgspec.structs.replace(bit, noise=bit.noise * 2**0.5),
    )
    public = max(rule.cap * step_cost(both.charged_noise), promised)
    server, others = (gaussian_epsilon(math.sqrt(mu), rule.delta) for mu in (one, public))
    return {"leader": server, "helper": server, "public": others}


def guarantee_in_words(rule: Privacy) -> str:
    """The claim in one line; without noise it says that there is none."""
    if rule.noise == 0:
        return "no privacy guarantee: noise is 0, sums are published as they are"
    epsilon = charged_epsilon(rule.cap, rule.charged_noise, rule.delta)
    said = (
        f"epsilon {epsilon:.1f} at delta {rule.delta:.2g} for a device that joins {rule.cap} rounds"
    )
    if math.isinf(rule.window):
        return said
    last = state_policy(rule).lifetime[-1]
    return (
        f"{said} in any {rule.window / DAY:g} days; over {last.windows} such windows epsilon "
        f"{last.epsilon:.1f}"
    )


def _when(rule: Privacy) -> str:
    if math.isinf(rule.window):
        return ""
    return f" whose rounds it joined within {rule.window / DAY:g} days"


def _assumptions(rule: Privacy, other_rules: bool) -> tuple[str, ...]:
    if rule.noise == 0:
        return ("noise is 0: there is no privacy guarantee",)
    found = [
        "nothing is assumed about who takes part when, and nothing is gained from sampling",
        f"no device is in more than {rule.cap} releases{_when(rule)}, nor in two less than "
        f"{rule.separation} steps apart; the coordinator and the device both see to it",
        "the aggregator clips every update, adds the noise and lets nobody see a sum without it",
        "every release was made under this policy, and a person has one device"
        if not other_rules
        else "earlier steps were made under other rules: what they cost is in epsilon, also where "
        "there was no noise and so no guarantee; a person has one device",
    ]
    if len(rule.coefficients) > 1:
        norm = math.hypot(*rule.coefficients)
        found.append(
            f"noise is correlated, taken back over {len(rule.coefficients) - 1} later steps; "
            f"charged with |c| = {norm:.3f}, which needs the separation above"
        )
    if rule.adapt is not None:
        found.append(
            "the clip follows one bit of each update; the bit is charged with the update, at z = "
            f"{rule.charged_noise:.3f} in all"
        )
    return tuple(found)
