"""The policy in force: what a task guarantees, kept in its database, and what a change does. Pure.

It is what devices agree to: every field of a plan's privacy part, and how many rounds there are.
The settings say what an operator wants; where they differ from the policy in force somebody has to
take that step, and its effect is told before.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from fedrap_coordinator.domain.records import DeviceStates
from fedrap_coordinator.errors import ConfigError
from fedrap_core.errors import FedRapError
from fedrap_core.plan import DAY, Count, Privacy
from fedrap_core.privacy.accounting import gaussian_epsilon
from fedrap_core.privacy.statement import state_policy
from fedrap_core.wire.codec import decode_value, encode_value

USUAL_FLOOR = 10.0  # epsilon that devices insist on unless their app says otherwise


_ABSENT = {"window_days": 0.0, "spread_days": 0.0}  # fields that a plan leaves out, and their sense


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What every round of a task is made under."""

    privacy: Privacy
    total: Count  # T, rounds of the whole task

    def encoded(self) -> bytes:
        """As the database keeps it."""
        return encode_value(self)

    def changed(self, changes: dict[str, Any]) -> Policy:
        """This policy with other values for some fields, by name.

        Raises:
            ConfigError: there is no such field, or it cannot have that value.
        """
        tree = _flat(self)
        unknown = sorted(set(changes) - set(tree))
        if unknown:
            known = ", ".join(tree)
            raise ConfigError(f"a policy has no {', '.join(unknown)}; it has {known}")
        wanted = tree | changes
        for name in _ABSENT:
            if wanted[name] in (0, None):  # as it is where nobody says anything
                del wanted[name]
        try:
            total = msgspec.convert(wanted.pop("total"), Count)
            return Policy(privacy=msgspec.convert(wanted, Privacy), total=total)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise ConfigError(f"not a policy: {error}") from error


def read_policy(raw: bytes) -> Policy:
    """From the database.

    Raises:
        ConfigError: it is of a version that this one does not know.
    """
    try:
        return decode_value(Policy, raw)
    except FedRapError as error:
        raise ConfigError(f"the policy in this database is of another version: {error}") from error


def _flat(policy: Policy) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(policy.privacy)
    return {**_ABSENT, **found, "total": policy.total}


def differences(before: Policy, after: Policy) -> dict[str, tuple[Any, Any]]:
    """Fields that differ, with both values."""
    old, new = _flat(before), _flat(after)
    return {name: (old[name], new[name]) for name in old if old[name] != new[name]}


def in_words(changes: dict[str, tuple[Any, Any]]) -> str:
    """Such as "noise from 0.8 to 1.2, cap from 3 to 5"."""
    return ", ".join(
        f"{name} from {_said(old)} to {_said(new)}" for name, (old, new) in changes.items()
    )


def _said(value: Any) -> str:
    return "nothing" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def effect(before: Policy, after: Policy, now: DeviceStates, then: DeviceStates) -> tuple[str, ...]:
    """What a change does to devices, in sentences.

    Args:
        now: devices by state under the policy in force.
        then: the same devices under the other one.
    """
    said = [_epsilon_in_words(before, after, now, then)]
    times = max(now.charged, default=0)
    if times:
        spent = gaussian_epsilon(math.sqrt(now.most_spent), before.privacy.delta)
        said.append(
            f"what was spent stays: {_number(spent)} at the most, by {now.charged[times]} devices "
            f"that took part {times} times"
        )
    back = now.spent - then.spent
    if back:
        number = abs(back)
        said.append(
            f"{number} devices that had spent their budget may take part again"
            if back > 0
            else f"{number} devices more have spent their budget, and take part no more"
        )
    old, new = before.privacy.rest, after.privacy.rest
    if old != new:
        said.append(
            f"a device rests {new / DAY:.1f} days after a round, not {old / DAY:.1f}"
            if new > 0
            else "devices rest no longer than b steps after a round: K is no longer spread"
        )
    later = state_policy(after.privacy, then.most_promised).lifetime
    if later and math.isfinite(later[-1].epsilon):
        each = ", ".join(f"{one.windows} {_number(one.epsilon)}" for one in later)
        said.append(f"over several such windows epsilon adds up, for {each}")
    promised = _promised(after.privacy, then)
    if promised > USUAL_FLOOR:
        said.append(
            f"devices insist on epsilon {USUAL_FLOOR:g} at the most unless their app says "
            "otherwise, and refuse rounds beyond it"
        )
    said.append("the open round keeps the rules that it was opened with; the next has the new ones")
    return tuple(said)


def _epsilon_in_words(before: Policy, after: Policy, now: DeviceStates, then: DeviceStates) -> str:
    old, new = _promised(before.privacy, now), _promised(after.privacy, then)
    often = f"{after.privacy.cap} times"
    if math.isfinite(after.privacy.window):
        often += f" in any {after.privacy.window / DAY:g} days"
    who = f"a device that takes part as often as it may ({often})"
    if old == new:
        return f"epsilon of {who} stays {_number(new)}"
    return f"epsilon of {who} goes from {_number(old)} to {_number(new)}"


def _promised(rule: Privacy, states: DeviceStates) -> float:
    return state_policy(rule, states.most_promised).epsilon


def _number(epsilon: float) -> str:
    return f"{epsilon:.1f}" if math.isfinite(epsilon) else "no guarantee at all"
