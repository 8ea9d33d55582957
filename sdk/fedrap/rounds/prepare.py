"""From local data to what the device keeps and what it sends: one pure function.

train -> clip -> quantise -> encode -> pad -> seal
or, for two servers: train -> clip -> quantise -> shares -> seal to each
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedrap.rounds.ledger import Entry
from fedrap.trainers.protocol import Trainer
from fedrap_core.errors import BrokenModel
from fedrap_core.model import CommonItems, History
from fedrap_core.paper.problem import PaperState, fresh_state, keep_state, pose_paper
from fedrap_core.paper.sampling import Uniform
from fedrap_core.parts import more_parts
from fedrap_core.plan import OFF, PaperMethod, Plan, SolveMethod, sequence_of, split_of, trend_of
from fedrap_core.privacy.mechanisms import clip_share
from fedrap_core.sequence.device_share import answer, ask, draw, pose_sequence
from fedrap_core.sequence.model import window
from fedrap_core.solve.device_share import join_shares, pose_round
from fedrap_core.sparse import RowPart, RowUpdate
from fedrap_core.split import numbers
from fedrap_core.split.numbers import Terms
from fedrap_core.split.report import make_report
from fedrap_core.trend import touched_lately
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import Offer
from fedrap_core.wire.seal import seal_update
from fedrap_core.wire.share import encode_share, uniform_count
from fedrap_core.wire.shares import seal_report


@dataclass(frozen=True, eq=False)
class LocalData:
    """What a round is computed from; all of it stays on the device."""

    common: CommonItems
    gram: npt.NDArray[np.float64]  # (k, k) C'C
    history: History
    trained: PaperState | None  # of earlier rounds of `paper`


@dataclass(frozen=True, eq=False)
class Prepared:
    """An update ready to leave, and what must be kept first."""

    body: bytes
    entry: Entry
    trained: PaperState | None
    loss: float  # stays on the device


def prepare_update(
    offer: Offer,
    plan: Plan,
    device: bytes,
    local: LocalData,
    trainer: Trainer,
    uniform: Uniform,
    now: float,
) -> Prepared:
    """This device's sealed answer to an offer. `uniform` draws what is random, and rounds.

    Where the plan has `split` it is a report for two servers; whoever calls has found the offer's
    helper to be the one that the app pins.

    Raises:
        BrokenModel: C gives no finite solution; nothing must be sent.
        Diverged: the local round ran away; nothing must be sent, and the old state stays.
    """
    if isinstance(plan.method, PaperMethod):
        update, trained, loss = _paper(plan.method, offer.step, local, trainer, uniform)
    else:
        update, trained, loss = _solve(plan.method, local, trainer)
        parts = _sequence(plan.method, local, trainer, uniform)
        if (trend := trend_of(plan.method)) is not None:
            parts += (touched_lately(local.history, now, trend),)
        update = replace(update, parts=parts)
    if split_of(plan) is None:
        body = _sealed(offer, plan, device, local, update, uniform)
    else:
        body = _reported(offer, plan, device, local, update, uniform)
    rule = plan.privacy
    entry = Entry(offer.step, offer.round, rule.charged_noise, rule.delta, now, rule)
    return Prepared(body, entry, trained, loss)


def _sealed(
    offer: Offer, plan: Plan, device: bytes, local: LocalData, update: RowUpdate, uniform: Uniform
) -> bytes:
    """One share, that the holder of the sealing key reads."""
    clipped = clip_share(update, plan.privacy)
    parts = more_parts(plan.method, local.common.size)
    plaintext = encode_share(clipped, uniform(uniform_count(clipped)), parts)
    return encode(seal_update(offer, device, plaintext))


def _reported(
    offer: Offer, plan: Plan, device: bytes, local: LocalData, update: RowUpdate, uniform: Uniform
) -> bytes:
    """Two shares, neither of which says anything."""
    if offer.helper is OFF:
        raise BrokenModel("a plan for two servers in an offer of one")
    terms = Terms(offer.round, plan, local.common.size)
    mine = numbers.to_numbers(update, terms, uniform(numbers.uniform_count(terms)))
    report = make_report(terms, mine, report_secret(uniform))
    return encode(seal_report(offer, offer.helper, device, report))


def report_secret(uniform: Uniform) -> bytes:
    """What all that is random in a report follows from, out of 424 random bits."""
    return hashlib.sha256(uniform(8).astype("<f8").tobytes()).digest()


Computed = tuple[RowUpdate, PaperState | None, float]


def _solve(method: SolveMethod, local: LocalData, trainer: Trainer) -> Computed:
    problem = pose_round(local.common, local.gram, local.history, method)
    share = join_shares(problem, trainer.solve(problem.problems))
    return share.update, local.trained, share.loss


def _sequence(
    method: SolveMethod, local: LocalData, trainer: Trainer, uniform: Uniform
) -> tuple[RowPart, ...]:
    """What this device adds to the sequence part, where the plan has one."""
    part, items = sequence_of(method), local.common.sequence
    if part is None:
        return ()
    if items is None:
        raise BrokenModel("a plan with a sequence part for a release without one")
    draws = draw(len(window(local.history, part)), part, uniform)
    asked = ask(pose_sequence(local.history, part, draws), items)
    return answer(asked, trainer.expect(asked, items)).parts(part.scale)


def _paper(
    method: PaperMethod, step: int, local: LocalData, trainer: Trainer, uniform: Uniform
) -> Computed:
    known = local.trained
    fits = known is not None and known.user.shape == (method.dim,)
    state = known if known is not None and fits else fresh_state(method)
    untouched = np.ones(local.common.size, dtype=np.bool_)  # a mask: np.unique loads 10 MB
    untouched[local.history.rows] = False
    seen, unseen = np.flatnonzero(~untouched), np.flatnonzero(untouched)
    problem = pose_paper(local.common.take, state, seen, unseen, method, step, uniform)
    (result,) = trainer.train([problem])
    loss = float(result.losses[-1]) if len(result.losses) else 0.0
    return result.update, keep_state(state, problem, result), loss
