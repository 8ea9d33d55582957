"""Settings of `fedrap` under a privacy guarantee: few large rounds, and k smaller with epsilon.

What is charged grows with how often a device takes part, so rounds are few and half of the devices
are in each, in turns (b = 2). Chosen on the validation of ml-1m with its 6,040 devices: noise is
the same for any number of them, so that more devices get more quality for the same guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedrap_core.plan import Scoring, SolveMethod
from fedrap_core.solve.server_step import Learning
from fedrap_simulation.engine.solve_rounds import Schedule


@dataclass(frozen=True)
class Preset:
    """What suits guarantees of `epsilon` and above."""

    epsilon: float
    dim: int
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
    def schedule(self) -> Schedule:
        """Without the noise, which follows from the guarantee."""
        return Schedule(rounds=self.rounds, part=0.5, clip=self.clip)

    @property
    def scoring(self) -> Scoring:
        """C from few clipped rounds is smaller, so u is held back less."""
        return Scoring(ridge=5.0)


PRESETS = (
    Preset(8.0, dim=48, rounds=6, clip=6.0, ridge=30.0),
    Preset(4.0, dim=24, rounds=6, clip=6.0, ridge=70.0),
    Preset(0.0, dim=24, rounds=4, clip=6.0, ridge=100.0),
)


def preset_for(epsilon: float) -> Preset:
    """The preset of the largest epsilon that the guarantee reaches."""
    return next(one for one in PRESETS if epsilon >= one.epsilon)
