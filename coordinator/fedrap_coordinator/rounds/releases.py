"""Versions of C: the first one, the next one from a round's sum, and C ready for use.

What makes a version gives a `Model` that nobody signed yet; `publish` gives it its entry in the log
of releases and its facts, and only then is it stored and served.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_coordinator.domain.cold_start import start_rows
from fedrap_coordinator.domain.records import Attribute, Extent, Facts, StoredRelease
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.rounds.release_state import ReleaseState
from fedrap_coordinator.rounds.sequence_state import (
    fits,
    grow_learner,
    learn_sequence,
    learner_after,
    pack_learner,
    published,
)
from fedrap_coordinator.rounds.solve_state import SolveState, state_of
from fedrap_coordinator.rounds.trend_state import published_trend
from fedrap_coordinator.settings import Settings
from fedrap_core.errors import BrokenModel, NotFinite
from fedrap_core.model import CommonItems
from fedrap_core.paper.averaging import average_step
from fedrap_core.plan import (
    DAY,
    OFF,
    AnyScoring,
    Method,
    PaperMethod,
    Plan,
    Scoring,
    SolveMethod,
    sequence_of,
    trend_of,
)
from fedrap_core.quantize import QuantizedRows, quantize_rows
from fedrap_core.sequence.server_step import SequenceLearner, start_learner
from fedrap_core.solve.server_step import (
    Learner,
    Popularity,
    RoundSum,
    learn_step,
    withheld_rows,
)
from fedrap_core.sparse import RowPart
from fedrap_core.trend import TrendState, faded_trend, follow_trend
from fedrap_core.wire.authority import entry_digest, sign_release
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import (
    MAX_RELEASE_BYTES,
    pack_delta,
    pack_release,
    served_rows,
    unpack_release,
)


@dataclass(frozen=True, eq=False)
class EncodedRelease:
    """A release as devices fetch it, compressed once for all of them."""

    version: int
    body: bytes

    @cached_property
    def gzipped(self) -> bytes:
        """Compressed when it is first asked for; what is served was compressed in a thread."""
        return gzip.compress(self.body, 6, mtime=0)


@dataclass(frozen=True, eq=False)
class Model:
    """A release in memory: what is served, and what the next step starts from."""

    stored: StoredRelease
    common: CommonItems
    message: Release
    encoded: EncodedRelease


def with_state(model: Model, state: bytes | None) -> Model:
    """With the state of its release, which is read for a step alone: it is large."""
    return replace(model, stored=replace(model.stored, learner=state))


def without_state(model: Model) -> Model:
    """As it is held for serving."""
    return with_state(model, None)


def unscaled(total: RoundSum, method: Method) -> RoundSum:
    """A round's sum as devices computed it, before the plan's scales; the trend's part apart."""
    part, trend, parts = sequence_of(method), trend_of(method), total.parts
    if trend is not None:
        *others, last = parts
        parts = tuple(others)
        lately = RowPart(last.rows, last.values / trend.scale)
        total = replace(total, lately=lately, lately_spread=total.spread / trend.scale)
    if part is not None:
        parts = tuple(RowPart(one.rows, one.values / part.scale) for one in parts)
    return replace(total, parts=parts)


def encode_release(stored: StoredRelease) -> EncodedRelease:
    """A stored release, ready to serve."""
    return _encoded(stored.version, stored.body)


def encode_since(old: StoredRelease, model: Model) -> EncodedRelease:
    """What brings a device that holds `old` to `model`: a delta, or the whole."""
    message = decode(Release, old.body, MAX_RELEASE_BYTES)
    delta = pack_delta(unpack_release(message), model.common, model.message)
    return model.encoded if delta is None else _encoded(model.stored.version, encode(delta))


def _encoded(version: int, body: bytes) -> EncodedRelease:
    made = EncodedRelease(version, body)
    _ = made.gzipped
    return made


def _unsigned(stored: StoredRelease, common: CommonItems, message: Release) -> Model:
    """Before `publish`: nothing of it is compressed."""
    return Model(stored, common, message, EncodedRelease(stored.version, stored.body))


def load_model(stored: StoredRelease) -> Model:
    """A stored release, decoded and its hash checked."""
    message = decode(Release, stored.body, MAX_RELEASE_BYTES)
    return Model(stored, unpack_release(message), message, encode_release(stored))


def first_model(task: bytes, extent: Extent, settings: Settings) -> Model:
    """Version 1: C drawn from N(0, spread^2), so that devices have something to start from."""
    rng = np.random.default_rng(settings.seed)
    paper = isinstance(settings.method, PaperMethod)
    spread = settings.averaging.spread if paper else settings.learning.spread
    rows = rng.normal(0.0, spread, (extent.items, settings.method.dim))
    wanted, learner = sequence_of(settings.method), None
    if wanted is not None:
        learner = start_learner(extent.items, wanted, settings.sequence, rng)
    return _build(
        task, _Next(1, 0, 0), extent.catalogue, quantize_rows(rows), None, settings, learner
    )


def successor_model(model: Model, settings: Settings) -> Model:
    """The C of `model` in the shape that the settings have, under the next version of its step.

    It is made of what was published, and so costs nobody anything. What rows have no numbers for
    is drawn as in a first release; of more numbers than there will be, those stay that say most
    (the best rows of that rank: users are solved anew, so a rotation changes nothing). Trend and
    sequence part begin anew; who supports a row stays known.
    """
    rng = np.random.default_rng([settings.seed, model.stored.step, model.stored.version])
    rows = _of_dim(model.common.items.to_float(), settings.method.dim, settings, rng)
    wanted, learner = sequence_of(settings.method), None
    if wanted is not None:
        learner = start_learner(model.common.size, wanted, settings.sequence, rng)
    m, old = model.message, model.stored
    made = _Next(old.version + 1, old.step, old.devices, m.clip)
    fresh = _build(m.task, made, m.catalogue, quantize_rows(rows), None, settings, learner)
    withheld = ~served_rows(m.withheld, m.size)
    message = pack_release(
        m.task, old.step, fresh.common, m.catalogue, fresh.message.scoring, m.clip, withheld
    )
    stored = replace(fresh.stored, body=encode(message), support=old.support, restores=old.version)
    return _unsigned(stored, fresh.common, message)


def _of_dim(
    rows: npt.NDArray[np.float32], dim: int, settings: Settings, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    more = dim - rows.shape[1]
    if more >= 0:
        fresh = rng.normal(0.0, settings.learning.spread, (len(rows), more))
        return np.concatenate([rows.astype(np.float64), fresh], axis=1)
    left, sizes, _ = np.linalg.svd(rows.astype(np.float64), full_matrices=False)
    kept = left[:, :dim] * sizes[:dim]
    return np.pad(kept, ((0, 0), (0, dim - kept.shape[1])))


def recovered_model(model: Model, version: int, step: int) -> Model:
    """The same C under a later version and step: both were published before a backup came back.

    The noise of a step follows from key, task and step. To sum other updates under a step that the
    world has seen would let it subtract one release from the other, noise and all.
    """
    common, m = replace(model.common, version=version), model.message
    message = pack_release(
        m.task, step, common, m.catalogue, m.scoring, m.clip, ~served_rows(m.withheld, m.size)
    )
    old = model.stored
    stored = replace(old, version=version, step=step, body=encode(message), restores=old.version)
    return _unsigned(stored, common, message)


def restored_model(
    model: Model,
    old: StoredRelease,
    attributes: Sequence[Attribute] = (),
    size: int | None = None,
) -> Model:
    """The C of `old` under the version after `model`.

    The step stays that of `model`: rounds that were made stay made, and what was charged for them
    stays charged. It is made of what was published, so it costs nothing. Items that came since
    `old` keep their rows and start anew from their neighbours. The sequence part learns on from the
    state of `old` where that was kept, else from its int8 rows with moments that start anew.

    Raises:
        BrokenModel: the old release is damaged.
    """
    past = load_model(old)
    version, step = model.stored.version + 1, model.stored.step
    size = model.common.size if size is None else size  # rows of the result
    rows, fresh = past.common.items, size - past.common.size
    if fresh > 0:
        rows = _grown(rows, start_rows(rows.to_float().astype(np.float64), fresh, attributes))
    sequence, learner = past.common.sequence, None
    kept = ReleaseState.read(old.learner)
    solve = kept.solve or SolveState(np.zeros((0, past.common.dim)))
    if sequence is not None:
        state = learner_after(kept.sequence, sequence, old.step)
        learner = grow_learner(state, size, attributes)
        sequence = published(learner)
    lately = published_trend(kept.trend, size)
    common, latest = CommonItems(version, rows, sequence, lately), model.message
    shown = served_rows(past.message.withheld, past.common.size)
    withheld = np.zeros(common.size, dtype=np.bool_)
    withheld[: past.common.size] = ~shown
    withheld[past.common.size :] = not np.all(shown)  # new ones wait where others had to
    message = pack_release(
        latest.task, step, common, latest.catalogue, _scoring_of(latest, past.message),
        past.message.clip, withheld,
    )  # fmt: skip
    stored = StoredRelease(
        version, step, old.devices, encode(message), old.gram, old.version, support=old.support,
        learner=_kept(kept.trend, solve.grown(past.common.size, size, step), learner),
    )  # fmt: skip
    return _unsigned(stored, common, message)


def _kept(
    trend: TrendState | None, solve: SolveState | None, learner: SequenceLearner | None
) -> bytes | None:
    sequence = None if learner is None else pack_learner(learner)
    return ReleaseState(trend, solve, sequence).packed()


def grown_model(
    model: Model,
    extent: Extent,
    attributes: Sequence[Attribute] = (),
    method: Method | None = None,
    at: float = 0.0,
) -> Model:
    """`model` again under the next version, with rows for the items that came since.

    The step stays; it is made of what was published, and so costs nobody anything. With a `method`
    that has a trend, what was touched lately has faded to `at`.
    """
    message = msgspec.structs.replace(model.message, catalogue=extent.catalogue)
    size = max(extent.items, model.common.size)
    stored, wanted = model.stored, None if method is None else trend_of(method)
    kept = ReleaseState.read(stored.learner)
    if kept.trend is not None and wanted is not None:
        faded = faded_trend(kept.trend, at, wanted.half_days)
        stored = replace(stored, learner=replace(kept, trend=faded).packed())
    return restored_model(replace(model, message=message), stored, attributes, size)


def is_stale(model: Model, method: Method, now: float) -> bool:
    """Has the trend of a release halved since it was made? Rounds may have ended."""
    wanted, made_at = trend_of(method), model.stored.facts.made_at
    if wanted is None or model.common.trend is None:
        return False
    return now - made_at >= DAY * wanted.half_days


def rescored_model(model: Model, scoring: Scoring) -> Model:
    """`model` again under the next version, with other scalars; nothing else changes."""
    again = restored_model(model, model.stored)
    m, common = again.message, again.common
    withheld = ~served_rows(m.withheld, m.size)
    message = pack_release(m.task, m.step, common, m.catalogue, scoring, m.clip, withheld)
    return _unsigned(replace(again.stored, body=encode(message)), common, message)


def _scoring_of(latest: Release, past: Release) -> AnyScoring:
    """Today's scoring, but window and kernels of the sequence part are those of its rows."""
    if latest.dim != past.dim:  # a successor, or what it is beside: each has scalars of its own
        return past.scoring
    if not (isinstance(latest.scoring, Scoring) and isinstance(past.scoring, Scoring)):
        return latest.scoring
    return msgspec.structs.replace(latest.scoring, sequence=past.scoring.sequence)


def publish(
    made: Model,
    before: Model | None,
    authority: ec.EllipticCurvePrivateKey,
    now: float,
    head: bytes | None = None,
    staged: bytes = b"",
) -> Model:
    """The version that was made, signed as the one after `before`, with facts that outlive it.

    `head` is the entry that it follows where that is another one than `before` has; `staged` the
    roll-out that it is staged by, where it is not for every device.
    """
    if head is None:
        head = b"" if before is None else before.message.entry
    message = sign_release(authority, made.message, entry_digest(head), staged or OFF)
    stored = replace(made.stored, body=encode(message), entry=message.entry, staged=staged)
    made = Model(stored, made.common, message, encode_release(stored))
    delta = None
    if before is not None:
        delta = len(encode_since(before.stored, made).gzipped)
    facts = Facts(
        made_at=now,
        items=made.common.size,
        zeros=float(np.mean(made.common.items.values == 0)),
        whole_bytes=len(made.encoded.gzipped),
        delta_bytes=delta,
    )
    return replace(made, stored=replace(stored, facts=facts))


def check_settings(settings: Settings, model: Model, next_dim: int | None = None) -> None:
    """A task keeps its method and its k; everything else an operator may change.

    `next_dim` is the k of a successor that goes on, if any.

    Raises:
        ConfigError: the settings are those of another task.
    """
    known, same = model.common.dim, type(model.message.scoring) is type(settings.released_scoring())
    if settings.method.dim not in (known, next_dim) or not same:
        raise ConfigError(
            f"this database holds a task of another method or another dim ({known}); set them "
            "back, begin a successor of another dim with `fedrap-coordinator task next`, or "
            "start a new task with a new database"
        )


def plan_after(model: Model, settings: Settings) -> Plan:
    """The plan of the round that starts from `model`, with the clip that the last one led to.

    Where the settings have a sequence part that `model` has no rows of, this round goes without it;
    the release that it makes has them.
    """
    plan, wanted = settings.plan(), sequence_of(settings.method)
    if wanted is not None and not fits(model.common.sequence, wanted):
        assert isinstance(plan.method, SolveMethod)
        method = msgspec.structs.replace(plan.method, sequence=OFF)
        plan = msgspec.structs.replace(plan, method=method)
    if plan.privacy.adapt is None or not model.message.clip:
        return plan
    privacy = msgspec.structs.replace(plan.privacy, clip=model.message.clip)
    return msgspec.structs.replace(plan, privacy=privacy)


def next_model(
    task: bytes,
    model: Model,
    total: RoundSum,
    extent: Extent,
    settings: Settings,
    clip: float = 0.0,
    attributes: Sequence[Attribute] = (),
    at: float = 0.0,
) -> Model:
    """The version after `model`: one step, new items where their neighbours are, quantised.

    An item that is like no other starts as a row of zeros, which scores nothing until devices that
    touched the item have taught it something. `at` is when the round was opened: what was touched
    lately fades with it, and a step that is made again has the same numbers.

    Raises:
        BrokenModel: the sum gives no usable C.
    """
    step = model.stored.step + 1
    kept, here = ReleaseState.read(model.stored.learner), model.common.items.to_float()
    common = here.astype(np.float64)
    state = Learner(
        common,
        _gram_from_bytes(model.stored.gram, model.common.dim),
        *_support_from_bytes(model.stored.support),
        *((None, None) if kept.solve is None else kept.solve.of(common)),
    )
    learnt = _learnt(state, total, settings, step)
    try:
        rows = quantize_rows(learnt.common)
    except NotFinite as error:
        raise BrokenModel("the learning step gave numbers that are absurdly large") from error
    fresh = extent.items - rows.shape[0]
    if fresh > 0:
        rows = _grown(rows, start_rows(learnt.common, fresh, attributes))
    made = _Next(model.stored.version + 1, step, total.devices, clip)
    trend, learner = kept.trend, _learnt_sequence(model, kept.sequence, total, settings, learnt)
    if learner is not None:
        learner = grow_learner(learner, rows.shape[0], attributes)
    if (wanted := trend_of(settings.method)) is None:
        trend = None
    elif total.lately is not None:
        trend = follow_trend(
            trend, total.lately, total.lately_spread, at, wanted.half_days, rows.shape[0],
            settings.learning.contrast,
        )  # fmt: skip
    solve = state_of(learnt).grown(model.common.size, rows.shape[0], step)
    return _build(task, made, extent.catalogue, rows, learnt, settings, learner, trend, solve)


def _learnt_sequence(
    model: Model, kept: bytes | None, total: RoundSum, settings: Settings, learnt: Learner
) -> SequenceLearner | None:
    """The sequence part after a round; a new one where `model` has none that fits."""
    wanted, rows = sequence_of(settings.method), model.common.sequence
    if wanted is None:
        return None
    if rows is None or not fits(rows, wanted):
        rng = np.random.default_rng([settings.seed, model.stored.step])
        return start_learner(model.common.size, wanted, settings.sequence, rng)
    learner = learner_after(kept, rows, model.stored.step)
    if not total.parts:  # the round was opened without it
        return learner
    return learn_sequence(
        learner, total.parts, total.devices, settings.sequence, settings.learning, learnt
    )


def _grown(rows: QuantizedRows, fresh: npt.NDArray[np.float64]) -> QuantizedRows:
    start = quantize_rows(fresh)
    return QuantizedRows(
        np.concatenate([rows.values, start.values]), np.concatenate([rows.scales, start.scales])
    )


def _learnt(state: Learner, total: RoundSum, settings: Settings, step: int) -> Learner:
    if isinstance(settings.method, PaperMethod):
        return average_step(state, total, settings.method, settings.averaging, step)
    return learn_step(state, total, settings.method, settings.learning, step - 1)


@dataclass(frozen=True)
class _Next:
    """What a new release is called, how many updates are in it, and the clip after it."""

    version: int
    step: int
    devices: int
    clip: float = 0.0


def _build(
    task: bytes,
    made: _Next,
    catalogue: int,
    rows: QuantizedRows,
    learnt: Learner | None,
    settings: Settings,
    learner: SequenceLearner | None,
    trend: TrendState | None = None,
    solve: SolveState | None = None,
) -> Model:
    """`learnt` is None for the first one, which withholds nothing: it has learnt nothing."""
    sequence = None if learner is None else published(learner)
    lately = published_trend(trend, rows.shape[0])
    common = CommonItems(made.version, rows, sequence, lately)
    withheld, gram, support = None, None, None
    if learnt is not None:
        gram, support = _to_bytes(learnt.gram), _support_to_bytes(learnt)
        if not isinstance(settings.method, PaperMethod):
            withheld = withheld_rows(learnt.support, settings.learning.min_support, common.size)
    message = pack_release(
        task, made.step, common, catalogue, settings.released_scoring(), made.clip, withheld
    )
    stored = StoredRelease(
        made.version, made.step, made.devices, encode(message), gram, support=support,
        learner=_kept(trend, solve, learner),
    )  # fmt: skip
    return _unsigned(stored, common, message)


def _to_bytes(numbers: npt.NDArray[np.float64] | None) -> bytes | None:
    return None if numbers is None else numbers.astype("<f8").tobytes()


_COUNTED = b"FPO1"  # as the low half of a double it would be no count of devices
_COUNTED_HEAD = struct.Struct("<4sIId")


def _support_to_bytes(learnt: Learner) -> bytes | None:
    """f64 of each row; where touches were counted before it "FPO1" · u32 m, rounds · f64 variance ·
    f64 popularity of each row."""
    support, known = _to_bytes(learnt.support), learnt.popularity
    if support is None or known is None:
        return support
    head = _COUNTED_HEAD.pack(_COUNTED, len(known.share), known.rounds, known.variance)
    return head + known.share.astype("<f8").tobytes() + support


def _support_from_bytes(
    raw: bytes | None,
) -> tuple[npt.NDArray[np.float64] | None, Popularity | None]:
    if raw is None:
        return None, None
    if raw[:4] != _COUNTED:
        return np.frombuffer(raw, dtype="<f8"), None
    _, size, rounds, variance = _COUNTED_HEAD.unpack_from(raw)
    share = np.frombuffer(raw, dtype="<f8", offset=_COUNTED_HEAD.size, count=size)
    support = np.frombuffer(raw, dtype="<f8", offset=_COUNTED_HEAD.size + share.nbytes)
    return support, Popularity(share, variance, rounds)


def _gram_from_bytes(raw: bytes | None, dim: int) -> npt.NDArray[np.float64] | None:
    return None if raw is None else np.frombuffer(raw, dtype="<f8").reshape(dim, dim)
