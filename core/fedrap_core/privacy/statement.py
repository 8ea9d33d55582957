"""The privacy guarantee of a policy, in numbers and in words: the same on server and device."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrap_core.plan import Privacy
from fedrap_core.privacy.accounting import charged_epsilon, gaussian_mu

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


@dataclass(frozen=True)
class Statement:
    """A policy as people can check it. `mu` and `epsilon` are infinite without noise."""

    unit: str
    adjacency: str
    separation: int  # b, in released steps
    cap: int  # K
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


def state_policy(rule: Privacy) -> Statement:
    """What `rule` guarantees to a device that takes part as often as it may."""
    return Statement(
        unit=UNIT,
        adjacency=ADJACENCY,
        separation=rule.separation,
        cap=rule.cap,
        noise=rule.noise,
        coefficients=rule.coefficients,
        clip=rule.clip,
        row_clip=rule.row_clip,
        clip_adapts=rule.adapt is not None,
        delta=rule.delta,
        mu=gaussian_mu(rule.cap, rule.charged_noise),
        epsilon=charged_epsilon(rule.cap, rule.charged_noise, rule.delta),
        assumptions=_assumptions(rule),
        trusted=tuple(Trust(who, what) for who, what in TRUSTED),
    )


def guarantee_in_words(rule: Privacy) -> str:
    """The claim in one line; without noise it says that there is none."""
    if rule.noise == 0:
        return "no privacy guarantee: noise is 0, sums are published as they are"
    epsilon = charged_epsilon(rule.cap, rule.charged_noise, rule.delta)
    return (
        f"epsilon {epsilon:.1f} at delta {rule.delta:.2g} for a device that joins {rule.cap} rounds"
    )


def _assumptions(rule: Privacy) -> tuple[str, ...]:
    if rule.noise == 0:
        return ("noise is 0: there is no privacy guarantee",)
    found = [
        "nothing is assumed about who takes part when, and nothing is gained from sampling",
        f"no device is in more than {rule.cap} releases, nor in two less than {rule.separation} "
        "steps apart; the coordinator and the device both see to it",
        "the aggregator clips every update, adds the noise and lets nobody see a sum without it",
        "every release was made under this policy, and a person has one device",
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
