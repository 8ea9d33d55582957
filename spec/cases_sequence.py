"""Vectors of the sequence part: shares and their bytes, releases, deltas, lists and reasons."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from fedrap_core.errors import FedRapError
from fedrap_core.model import CommonItems, SequenceRows
from fedrap_core.parts import more_parts
from fedrap_core.plan import Privacy, Scoring, SequenceMethod, SequenceScoring, SolveMethod
from fedrap_core.privacy.mechanisms import clip_share
from fedrap_core.quantize import QuantizedRows
from fedrap_core.ranking import explain, rank
from fedrap_core.sequence.device_share import (
    answer,
    ask,
    compute_sequence,
    draw,
    expect,
    look_exactly,
    pose_sequence,
)
from fedrap_core.sequence.model import from_rows, window
from fedrap_core.sequence.user import derive_query
from fedrap_core.solve.device_share import compute_share, join_shares, pose_round
from fedrap_core.solve.user import derive_user
from fedrap_core.sparse import RowPart, RowUpdate, packed_size
from fedrap_core.wire import messages
from fedrap_core.wire.codec import encode
from fedrap_core.wire.releases import apply_delta, pack_delta, pack_release, unpack_release
from fedrap_core.wire.share import decode_share, encode_share, folded_rows, pad
from spec.vector_format import (
    TOLERANCE,
    Case,
    File,
    builtins,
    common_items,
    error_name,
    fractions,
    history,
    model,
    rounded,
)

_TASK = bytes(range(16))


def part_of(label: str, size: int, dim: int, kernels: int) -> Case:
    """A sequence part whose numbers are of about one, as a release carries it."""
    outputs, offsets = model(f"{label} outputs", size, dim), model(f"{label} offsets", size, dim)
    bias = [2.0 * x - 1.0 for (x,) in fractions(f"{label} bias", size, 1)]
    return {
        "dim": dim,
        "output_scales": outputs["scales"],
        "output_values": outputs["values"],
        "offset_scales": [scale / 4 for scale in offsets["scales"]],
        "offset_values": offsets["values"],
        "bias": bias,
        "kernels": [[x + 0.25 for x in row] for row in fractions(f"{label} a", kernels, dim)],
    }


def rows_of(stored: Case) -> SequenceRows:
    """A sequence part as stored in a vector."""
    dim = stored["dim"]

    def quantized(name: str) -> QuantizedRows:
        values = np.array(stored[f"{name}_values"], dtype=np.int8).reshape(-1, dim)
        scales = np.array(stored[f"{name}_scales"], dtype=np.float32)
        return QuantizedRows(values, scales)

    return SequenceRows(
        quantized("output"),
        quantized("offset"),
        np.array(stored["bias"], dtype=np.float32),
        np.array(stored["kernels"], dtype=np.float32).reshape(-1, dim),
    )


def shares_of_rounds() -> File:
    """sequence_of_round.json: release, history and random numbers to the parts of an update."""
    short, long = [3, 1, 4], [(7 * i * i + 3 * i) % 20 for i in range(14)]
    small = SequenceMethod(dim=3, targets=4, longest=6, taus=(0.5, 4.0), scale=0.25)
    given: list[tuple[str, int, list[int], SequenceMethod, Privacy]] = [
        ("three items, two targets", 8, short, small, Privacy()),
        ("one item predicts nothing", 8, [5], small, Privacy()),
        ("nothing at all", 8, [], small, Privacy()),
        ("more than the window has, fewer targets than places", 20, long, small, Privacy()),
        ("repeats of an item are places of their own", 8, [2, 5, 2, 2, 5], small, Privacy()),
        ("clipped as one vector", 20, long, small, Privacy(clip=0.5)),
        ("rows of every part are clipped", 20, long, small, Privacy(row_clip=0.05)),
        (
            "without order: from all others, under one kernel", 20, [*long, long[0]],
            SequenceMethod(dim=3, targets=5, ordered=False, dropout=0.5), Privacy(),
        ),
        (
            "five kernels, a catalogue of more than one group", 70, [*long, 66],
            SequenceMethod(dim=5, targets=8), Privacy(),
        ),
        (
            "three decoys for each target", 70, [*long, 66],
            SequenceMethod(dim=4, targets=5, decoys=3), Privacy(),
        ),
    ]  # fmt: skip
    cases = []
    for comment, size, rows, method, privacy in given:
        stored = {"rows": rows, "weights": [1.0] * len(rows)}
        cases.append(_share_case(comment, size, stored, method, privacy))
    about = (
        "uniform: the random numbers in the order in which they are drawn: one for each place that "
        "could be a target where there are more than `targets`, one for each place of the window "
        "and each target (kept where it is at least `dropout`), and one for each decoy, target "
        "by target. "
        "parts: inputs, outputs and kernels after scale and clips; rows and triangle are solve's. "
        "No decoy lies within 1e-6 of the border to another item. A float is right within "
        "absolute + relative*|expected|."
    )
    return {"about": about, "tolerance": TOLERANCE, "cases": cases}


def _share_case(
    comment: str, size: int, stored: Case, part: SequenceMethod, privacy: Privacy
) -> Case:
    shared, sequence = model(comment, size, 2), part_of(comment, size, part.dim, part.kernels)
    method = SolveMethod(dim=2, sequence=part)
    common, rows = common_items(shared), rows_of(sequence)
    numbers = [x for (x,) in fractions(f"{comment} u", 400, 1)]
    used = 0

    def uniform(count: int) -> Any:
        nonlocal used
        used += count
        return np.array(numbers[used - count : used])

    past = history(stored)
    draws = draw(len(window(past, part)), part, uniform)
    problem = pose_sequence(past, part, draws)
    truth = compute_sequence(problem, from_rows(rows))
    for nudge in (-1e-6, 1e-6):  # or another engine could find another decoy
        moved = compute_sequence(replace(problem, decoys=problem.decoys + nudge), from_rows(rows))
        assert moved.outputs.rows.tolist() == truth.outputs.rows.tolist(), comment
    asked = ask(problem, rows)
    made = answer(asked, expect(asked, rows, look_exactly))
    whole = pose_round(common, common.gram(), past, method)
    solved = join_shares(whole, [compute_share(one) for one in whole.problems]).update
    sent = clip_share(replace(solved, parts=made.parts(part.scale)), privacy)
    return {
        "comment": comment,
        "valid": True,
        "model": shared,
        "sequence": sequence,
        "history": stored,
        "method": builtins(method),
        "privacy": builtins(privacy),
        "uniform": numbers[:used],
        "loss": rounded(made.loss),
        "rows": sent.rows.tolist(),
        "values": rounded(sent.values),
        "triangle": rounded(sent.packed_gram),
        "parts": [{"rows": one.rows.tolist(), "values": rounded(one.values)} for one in sent.parts],
    }


def shares() -> File:
    """share_parts.json: the padded plaintext of an update with the parts of the sequence part."""
    method = SolveMethod(dim=2, sequence=SequenceMethod(dim=3, taus=(1.0, 5.0)))
    cases = []
    for comment, inputs, outputs in (("some rows", [1, 4], [0, 4, 6]), ("no rows", [], [])):
        update = _update(comment, method, inputs, outputs)
        uniform = [x for (x,) in fractions(f"{comment} v", 80, 1)]
        uniform = uniform[: 2 * (2 + folded_rows(2)) + sum(p.values.size for p in update.parts)]
        raw = encode_share(update, np.array(uniform), more_parts(method, 9))
        back = decode_share(raw, 2, more_parts(method, 9))
        cases.append(
            {
                "comment": comment, "valid": True, "method": builtins(method), "size": 9,
                "rows": update.rows.tolist(), "values": update.values.tolist(),
                "triangle": update.packed_gram.tolist(),
                "parts": [
                    {"rows": one.rows.tolist(), "values": one.values.tolist()}
                    for one in update.parts
                ],
                "uniform": uniform, "bytes": raw.hex(),
                "decoded": [one.values.tolist() for one in back.parts],
            }
        )  # fmt: skip
    update = _update("some rows", method, [1, 4], [0, 4, 6])
    parts = more_parts(method, 9)
    plain = RowUpdate(update.rows, update.values, update.packed_gram)
    half = np.full(200, 0.5)
    other = SolveMethod(dim=2, sequence=SequenceMethod(dim=4, taus=(1.0, 5.0)))
    body = messages.Share(
        rows=b"", scales=b"", values=b"", triangle_scales=bytes(8), triangle=bytes(4),
        parts=[
            messages.SharePart(name="inputs", rows=bytes(6), scales=b"", values=b""),
            messages.SharePart(name="outputs", scales=b"", values=b""),
            messages.SharePart(name="kernels", scales=bytes(8), values=bytes(6)),
        ],
    )  # fmt: skip
    assert body.parts
    named = [msgspec.structs.replace(body.parts[0], rows=b""), *body.parts[1:]]
    named[2] = msgspec.structs.replace(named[2], rows=bytes(8))
    bad: list[tuple[str, bytes]] = [
        ("no parts where the plan has some", encode_share(plain, half)),
        ("another dimension", encode_share(_update("x", other, [1], [2]), half,
                                           more_parts(other, 9))),
        ("parts in another order", encode_share(
            replace(update, parts=(update.parts[0], *update.parts[:0:-1])), half,
            (parts[0], *parts[:0:-1]))),
        ("more rows than the catalogue has", encode_share(
            _update("y", method, list(range(10)), []), half, parts)),
        ("a row number cut in the middle", pad(encode(body))),
        ("rows named where all of them come", pad(encode(
            msgspec.structs.replace(body, parts=named)))),
    ]  # fmt: skip
    for comment, raw in bad:
        cases.append(
            {
                "comment": comment, "valid": False, "method": builtins(method), "size": 9,
                "bytes": raw.hex(), "error": error_name(partial(decode_share, raw, 2, parts)),
            }
        )  # fmt: skip
    about = (
        "As share.json, with the parts of a plan that has a sequence part: inputs (k_s numbers in "
        "a row), outputs (k_s + 1) and kernels, whose rows are not named because all come. "
        "uniform: for the values, the folded triangle, then for each part. Bit-exact both ways."
    )
    return {"about": about, "cases": cases}


def _update(label: str, method: SolveMethod, inputs: list[int], outputs: list[int]) -> RowUpdate:
    shapes = more_parts(method, 9)
    wanted = (inputs, outputs, list(range(shapes[2].rows)))
    parts = tuple(
        RowPart(
            np.array(rows, dtype=np.int64),
            np.array(fractions(f"{label} {shape.name}", len(rows), shape.width, per=200)).reshape(
                -1, shape.width
            )
            - 0.5,
        )
        for rows, shape in zip(wanted, shapes, strict=True)
    )
    values = np.array(fractions(label, 2, 2, per=200)) - 0.5
    gram = np.array(fractions(f"{label} t", 1, packed_size(2), per=200)[0])
    return RowUpdate(np.array([1, 4]), values, gram, 0, parts)


def releases() -> File:
    """sequence_release.json: whole releases and deltas with a sequence part."""
    shared, part = model("with a sequence", 5, 2), part_of("with a sequence", 5, 3, 2)
    old = _with_part(1, shared, part)
    good = pack_release(_TASK, 5, old, 2, _SCORING)
    cases: list[Case] = [_release_case("a whole release", shared, part, good)]
    empty = part_of("nobody", 0, 3, 2)
    none = _with_part(1, model("nobody", 0, 2), empty)
    cases.append(
        _release_case("no items", model("nobody", 0, 2), empty,
                      pack_release(_TASK, 5, none, 2, _SCORING))
    )  # fmt: skip
    body = good.sequence
    assert isinstance(body, messages.SequenceBody)
    changed: list[tuple[str, dict[str, Any]]] = [
        ("another bias", {"bias": bytes(20)}),
        ("a bias missing", {"bias": body.bias[:-4]}),
        ("other kernels", {"kernels": bytes(24)}),
        ("kernels cut", {"kernels": body.kernels[:-4]}),
        ("no kernels", {"kernels": b""}),
        ("a scale missing", {"offset_scales": body.offset_scales[:-4]}),
        ("a bitmap cut", {"output_bitmap": body.output_bitmap[:-1]}),
        ("another dimension", {"dim": 2}),
        ("rows named in a whole release", {"output_rows": bytes(4)}),
    ]
    for comment, fields in changed:
        hurt = msgspec.structs.replace(body, **fields)
        bad = msgspec.structs.replace(good, sequence=hurt)
        cases.append(_refused(comment, bad, partial(unpack_release, bad)))
    left = msgspec.structs.replace(good, sequence=msgspec.UNSET)
    cases.append(_refused("the sequence part left out", left, partial(unpack_release, left)))
    more = {**part, "bias": [part["bias"][0], 3.5, *part["bias"][2:]]}
    more["offset_values"] = [*part["offset_values"][:4], [0, 0, 9]]
    grown, fresh = dict(shared), part_of("a new item", 1, 3, 2)
    for name in ("scales", "values"):
        grown[name] = shared[name] + model("a new item", 1, 2)[name]
    for name in ("output_scales", "output_values", "offset_scales", "offset_values", "bias"):
        more[name] = more[name] + fresh[name]
    more["kernels"] = fresh["kernels"]
    new = _with_part(2, grown, more)
    delta = pack_delta(old, new, pack_release(_TASK, 5, new, 2, _SCORING))
    assert delta is not None
    cases.append({**_release_case("a delta, with a new item", grown, more, delta),
                  "old": {"items": shared, "sequence": part}})  # fmt: skip
    body = delta.sequence
    assert isinstance(body, messages.SequenceBody)
    for comment, fields in (
        ("a delta that leaves out a new row", {"offset_rows": body.offset_rows[:-4],
                                              "offset_scales": body.offset_scales[:-4]}),
        ("a delta with rows out of order", {"output_rows": body.output_rows[::-1]}),
        ("a delta with a bias too many", {"bias": body.bias + bytes(4)}),
        ("a delta of another dimension", {"dim": 4}),
    ):  # fmt: skip
        bad_delta = msgspec.structs.replace(delta, sequence=msgspec.structs.replace(body, **fields))
        made = _refused(comment, bad_delta, partial(apply_delta, old, bad_delta))
        cases.append({**made, "old": {"items": shared, "sequence": part}})
    about = (
        'model = SHA-256 of "fedrap/1 sequence" | the hash of release.json | u32 size, dim and '
        "kernels | scales and values of outputs, then of offsets | f32 bias | f32 kernels, all "
        "little-endian. `bytes` is a release, or a delta where there is an `old`. Refused cases "
        "decode, but must not be used."
    )
    return {"about": about, "cases": cases}


_SCORING = Scoring(
    ridge=2.0,
    sequence=SequenceScoring(solve=4.0, sequence=0.5, kappa=0.75, longest=6, taus=(0.5, 4.0)),
)


def _with_part(version: int, shared: Case, part: Case) -> CommonItems:
    return CommonItems(version, common_items(shared).items, rows_of(part))


def _release_case(
    comment: str, shared: Case, part: Case, message: messages.Release | messages.Delta
) -> Case:
    return {
        "comment": comment, "valid": True, "hash": message.model.hex(), "items": shared,
        "sequence": part, "bytes": encode(message).hex(),
    }  # fmt: skip


def _refused(comment: str, message: messages.Release | messages.Delta, use: Any) -> Case:
    return {
        "comment": comment, "valid": False, "bytes": encode(message).hex(),
        "error": error_name(use),
    }  # fmt: skip


def rankings() -> File:
    """sequence_ranking.json: lists and reasons where both parts add up."""
    shared, part = model("both parts", 40, 4), part_of("both parts", 40, 3, 2)
    flat = part_of("without order", 40, 3, 1)
    unordered = SequenceScoring(solve=1.0, sequence=2.0, longest=6, ordered=False)
    mix = SequenceScoring(
        solve=4.0, sequence=0.5, kappa=0.75, longest=6, taus=(0.5, 4.0), adapt=0.75
    )
    given = [
        ("both parts, and a query that is adapted", part, [3, 17, 3, 8, 1, 30, 2, 11],
         Scoring(ridge=2.0, sequence=mix)),
        ("an empty history: popularity alone", part, [], _SCORING),
        ("one item", part, [39], _SCORING),
        ("the sequence part has no say", part, [3, 17, 8],
         Scoring(sequence=SequenceScoring(solve=1.0, sequence=0.0, longest=6, taus=(0.5, 4.0)))),
        ("without order", flat, [5, 9, 5, 22], Scoring(ridge=2.0, sequence=unordered)),
    ]  # fmt: skip
    cases = []
    for comment, sequence, rows, scoring in given:
        stored = {"rows": rows, "weights": [1.0 + 0.5 * (i % 3) for i in range(len(rows))]}
        cases.append(_ranking_case(comment, shared, sequence, stored, scoring))
    about = (
        "The six best of all rows but the hidden ones, with the parts of their scores, and the "
        "reasons of the first of them: for each item of the history, newest first, a number of "
        "each part. A float is right within absolute + relative*|expected|."
    )
    return {"about": about, "tolerance": TOLERANCE, "cases": cases}


def _ranking_case(
    comment: str, shared: Case, sequence: Case, stored: Case, scoring: Scoring
) -> Case:
    common, past = _with_part(1, shared, sequence), history(stored)
    taste = derive_user(common, common.gram(), past, scoring)
    mix = scoring.sequence
    if not isinstance(mix, SequenceScoring) or common.sequence is None:
        raise FedRapError("a case without a sequence part")
    user = derive_query(common.sequence, past, mix)
    hidden = sorted(set(stored["rows"]))
    allowed = np.ones(common.size, dtype=np.bool_)
    allowed[hidden] = False
    found = rank(common, taste, scoring, 6, allowed, user)
    why = explain(common, taste, scoring, int(found.rows[0]), user)
    assert found.sequence is not None
    assert found.popularity is not None
    assert why.sequence is not None
    return {
        "comment": comment, "valid": True, "model": shared, "sequence": sequence,
        "history": stored, "scoring": builtins(scoring), "n": 6, "hidden": hidden,
        "rows": found.rows.tolist(), "shared": rounded(found.shared),
        "personal": rounded(found.personal), "sequence_parts": rounded(found.sequence),
        "popularity": rounded(found.popularity), "reason_items": why.items.tolist(),
        "reason_shared": rounded(why.shared), "reason_personal": rounded(why.personal),
        "reason_sequence": rounded(why.sequence), "reason_popularity": rounded(why.popularity),
    }  # fmt: skip
