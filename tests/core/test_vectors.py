"""The golden vectors: the tool still makes them, and every case is replayed.

The replay reads nothing but the JSON, the way another language would.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedrap.rounds import ledger
from fedrap_core import errors, plan
from fedrap_core.model import CommonItems, History, SequenceRows
from fedrap_core.paper.sampling import private_stream
from fedrap_core.parts import more_parts
from fedrap_core.plan import Scoring, SolveMethod
from fedrap_core.privacy.accounting import charged_epsilon, charged_noise
from fedrap_core.privacy.mechanisms import clip_share, clip_to_norm
from fedrap_core.quantize import QuantizedRows, quantize_rows
from fedrap_core.questions.answers import Layout, pack
from fedrap_core.questions.gains import METRICS, PairedGains, ReleaseGains, gains_of, lead_of
from fedrap_core.questions.lists import shares_of
from fedrap_core.ranking import diversified, explain, rank
from fedrap_core.sequence.device_share import (
    answer,
    ask,
    draw,
    expect,
    look_exactly,
    pose_sequence,
)
from fedrap_core.sequence.model import window
from fedrap_core.sequence.user import derive_query
from fedrap_core.solve.device_share import compute_share, join_shares, pose_round, pose_share
from fedrap_core.solve.server_step import Learner, Learning, RoundSum, learn_step
from fedrap_core.solve.user import UserRepresentation, derive_user
from fedrap_core.sparse import RowPart, RowUpdate
from fedrap_core.split import field, numbers, report, vectors, verify
from fedrap_core.trend import touched_lately
from fedrap_core.wire import (
    attributes,
    authority,
    certificates,
    codec,
    messages,
    releases,
    share,
    shares,
    signing,
    tokens,
)
from fedrap_core.wire.keys import private_from_bytes, public_from_point
from fedrap_core.wire.seal import open_update, seal_context
from spec import cases_authority, make_vectors

FOLDER = Path(__file__).parents[2] / "spec" / "vectors"
FILES = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in FOLDER.glob("*.json")
    if path.stem != "bad_calls"  # of the SDK's own API: tests/sdk/test_bad_calls.py
}
KINDS: dict[str, Any] = {
    **{
        str(kind.__struct_config__.tag): kind
        for kind in messages.Message.__subclasses__()
        if kind.__module__ == messages.__name__  # those between servers are no device's business
    },
    "plan": plan.Plan,
    "scoring": Scoring,
}
Case = dict[str, Any]


def _near(made: Any, stored: Any) -> None:
    assert np.shape(made) == np.shape(stored)
    np.testing.assert_allclose(made, stored, rtol=1e-9, atol=1e-11)


def _bytes(case: Case, *names: str) -> list[bytes]:
    return [bytes.fromhex(case[name]) for name in names]


def _plain(value: Any) -> Any:
    """JSON back to what a message is made of: {"hex": ...} is bytes."""
    if isinstance(value, dict):
        if list(value) == ["hex"]:
            return bytes.fromhex(value["hex"])
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _items(case: Case) -> CommonItems:
    values = np.array(case["values"], dtype=np.int8).reshape(-1, case["dim"])
    return CommonItems(
        1, QuantizedRows(values, np.array([float(s) for s in case["scales"]], dtype=np.float32))
    )


def _history(case: Case) -> History:
    rows, weights = case["history"]["rows"], case["history"]["weights"]
    return History(np.array(rows, dtype=np.int64), np.array(weights, dtype=np.float64))


def _taste(case: Case) -> tuple[CommonItems, UserRepresentation, Scoring]:
    common, scoring = _items(case["model"]), msgspec.convert(case["scoring"], Scoring)
    gram = common.gram(np.array(case.get("retired", []), dtype=np.int64))
    return common, derive_user(common, gram, _history(case).settled(), scoring), scoring


def replay_codec(case: Case) -> None:
    kind, (raw,) = KINDS[case["type"]], _bytes(case, "bytes")
    inside = case["type"] in ("plan", "scoring")
    limit = case.get("max_bytes", codec.MAX_BYTES)
    read = (codec.decode_value if inside else codec.decode)(kind, raw, limit)
    fields = _plain(case["fields"]) if inside else {"type": case["type"], **_plain(case["fields"])}
    assert read == msgspec.convert(fields, kind, builtin_types=(bytes,))
    if case["direction"] == "both":
        assert (codec.encode_value if inside else codec.encode)(read) == raw


def replay_diversity(case: Case) -> None:
    rows = _items(case["model"]).take(np.array(case["rows"], dtype=np.int64))
    places = diversified(rows, np.array(case["scores"]), case["n"], case["diversity"])
    assert places.tolist() == case["places"]


def replay_seal(case: Case) -> None:
    names = ("task", "round", "model", "plan", "device", "seal_id", "sealed")
    fields = dict(zip(names, _bytes(case, *names), strict=True))
    update = messages.Update(step=case["step"], **fields)
    info = seal_context(
        update.task, update.round, update.step, update.model, update.plan, update.device,
        update.seal_id,
    )  # fmt: skip
    assert info.hex() == case["info"]
    opened = open_update(update, private_from_bytes(bytes.fromhex(case["private_key"])))
    assert opened.hex() == case["plaintext"]


def replay_signing(case: Case) -> None:
    body, device, key, signature = _bytes(case, "body", "device", "public_key", "signature")
    message = signing.signed_bytes(case["method"], case["path"], body, device, case["nonce"])
    assert message.hex() == case["message"]
    signing.verify(public_from_point(key), message, signature)


def replay_certificate(case: Case) -> None:
    authority, signed = _bytes(case, "authority", "signed")
    read = certificates.read_certificate(public_from_point(authority), signed)
    fields = {"type": "certificate", **_plain(case["fields"])}
    assert read == msgspec.convert(fields, messages.Certificate, builtin_types=(bytes,))
    challenge = certificates.enrol_challenge(read.public_key, case["token"])
    assert challenge.hex() == case["enrol_challenge"]
    again = certificates.renew_challenge(read.public_key, case["nonce"])
    assert again.hex() == case["renew_challenge"]


def replay_signed(case: Case) -> None:
    if case["what"] == "message":
        kind = cases_authority.KINDS[case["type"]]
        signed = codec.decode(messages.Signed, bytes.fromhex(case["bytes"]))
        opened = authority.open_signed(bytes.fromhex(case["authority"]), signed, kind)
        assert codec.encode(opened).hex() == case["body"]
    elif case["what"] == "release":
        raw = bytes.fromhex(case["bytes"])
        message: messages.Release | messages.Delta = codec.decode(KINDS[case["type"]], raw)
        authority.check_release(bytes.fromhex(case["authority"]), message)
        assert authority.entry_digest(message.entry).hex() == case["digest"]
    elif case["what"] == "attributes":
        told = codec.decode(messages.Attributes, bytes.fromhex(case["bytes"]))
        entry = attributes.check_attributes(bytes.fromhex(case["authority"]), told)
        bodies = [bytes.fromhex(one) for one in case["bodies"]]
        digests = attributes.page_digests(told.pages)
        for number, (digest, raw) in enumerate(zip(digests, bodies, strict=True)):
            attributes.check_page(entry, number, digest, raw)
    elif case["what"] == "log":
        following = [bytes.fromhex(one) for one in case["following"]]
        authority.check_leads(bytes.fromhex(case["held"]), following)
    else:
        held, signed_entry = _bytes(case, "held", "signed")
        assert authority.follows_at_once(held, signed_entry) is case["follows"]


def replay_token(case: Case) -> None:
    known = {case["issuer"]: public_from_point(bytes.fromhex(case["public_key"]))}
    claims = tokens.read_token(case["token"], known, case["audience"], case["now"])
    assert claims == msgspec.convert(case["claims"], tokens.Claims)


def replay_quantize(case: Case) -> None:
    rows = np.array([[float(x) for x in row] for row in case["rows"]])
    uniform = None if case["uniform"] is None else np.array(case["uniform"])
    made = quantize_rows(rows, uniform)
    assert made.scales.tolist() == case["scales"]
    assert made.values.tolist() == case["values"]


def replay_share(case: Case) -> None:
    (raw,), dim = _bytes(case, "bytes"), case["dim"]
    back = share.decode_share(raw, dim)
    values = np.array(case["values"]).reshape(-1, dim)
    update = RowUpdate(np.array(case["rows"], dtype=np.int64), values, np.array(case["triangle"]))
    assert share.encode_share(update, np.array(case["uniform"])) == raw
    assert back.rows.tolist() == case["rows"]
    assert back.values.tolist() == case["decoded_values"]
    assert back.packed_gram.tolist() == case["decoded_triangle"]


def replay_release(case: Case) -> None:
    (raw,) = _bytes(case, "bytes")
    release = codec.decode(messages.Release, raw)
    common = releases.unpack_release(release)
    stored = _items(case["items"])
    assert np.array_equal(common.items.values, stored.items.values)
    assert np.array_equal(common.items.scales, stored.items.scales)
    assert releases.model_hash(stored.items).hex() == case["hash"]
    again = CommonItems(case["version"], stored.items)
    scoring = msgspec.convert(case["scoring"], Scoring)
    (task,) = _bytes(case, "task")
    made = releases.pack_release(task, case["step"], again, case["catalogue"], scoring)
    assert codec.encode(made) == raw


def replay_delta(case: Case) -> None:
    (raw,) = _bytes(case, "bytes")
    old, delta = _items(case["old"]), codec.decode(messages.Delta, raw)
    common = releases.apply_delta(old, delta)
    new = _items(case["new"])
    assert np.array_equal(common.items.values, new.items.values)
    assert np.array_equal(common.items.scales, new.items.scales)
    assert releases.model_hash(new.items).hex() == case["hash"]
    again = CommonItems(delta.version, new.items)
    release = releases.pack_release(delta.task, delta.step, again, delta.catalogue, delta.scoring)
    made = releases.pack_delta(old, again, release)
    assert made is not None
    assert codec.encode(made) == raw


def replay_solve(case: Case) -> None:
    common, taste, _ = _taste(case)
    assert taste.items.tolist() == case["items"]
    assert taste.personal.rows.tolist() == case["items"][: len(case["personal"])]
    _near(taste.weights, case["weights"])
    _near(taste.user, case["user"])
    _near(taste.personal.offsets, case["personal"])
    _near(common.take(np.arange(common.size)) @ taste.user, case["shared"])


def replay_ranking(case: Case) -> None:
    common, taste, scoring = _taste(case)
    allowed = np.ones(common.size, dtype=np.bool_)
    allowed[case["hidden"]] = False
    found = rank(common, taste, scoring, case["n"], allowed)
    assert found.rows.tolist() == case["rows"]
    _near(found.shared, case["shared"])
    _near(found.personal, case["personal"])


def replay_explain(case: Case) -> None:
    common, taste, scoring = _taste(case)
    reasons = explain(common, taste, scoring, case["row"])
    assert reasons.items.tolist() == case["items"]
    _near(reasons.shared, case["shared"])
    _near(reasons.personal, case["personal"])


def replay_share_of_round(case: Case) -> None:
    common, method = _items(case["model"]), msgspec.convert(case["method"], SolveMethod)
    made = compute_share(pose_share(common, common.gram(), _history(case), method))
    sent = clip_to_norm(made.update, case["clip"])
    assert sent.rows.tolist() == case["rows"]
    _near(made.user, case["user"])
    _near(made.loss, case["loss"])
    _near(made.update.norm(), case["norm"])
    _near(sent.values, np.reshape(case["values"], (-1, method.dim)))
    _near(sent.packed_gram, case["triangle"])


def replay_learn_step(case: Case) -> None:
    method, learning = SolveMethod, Learning
    state = Learner(np.array(case["common"]), case["gram"] and np.array(case["gram"]))
    total = RoundSum(
        np.array(case["sum"]["rows"], dtype=np.int64),
        np.reshape(case["sum"]["values"], (-1, state.common.shape[1])).astype(np.float64),
        np.array(case["sum"]["triangle"]),
        case["sum"]["devices"],
    )
    after = learn_step(
        state, total, msgspec.convert(case["method"], method),
        msgspec.convert(case["learning"], learning), case["step"],
    )  # fmt: skip
    _near(after.common, case["new_common"])
    _near(after.gram, case["new_gram"])


def replay_update_of_round(case: Case) -> None:
    common, method = _items(case["model"]), msgspec.convert(case["method"], SolveMethod)
    problem = pose_round(common, common.gram(), _history(case), method)
    made = join_shares(problem, [compute_share(one) for one in problem.problems])
    sent = clip_share(made.update, msgspec.convert(case["privacy"], plan.Privacy))
    assert sent.rows.tolist() == case["rows"]
    assert sent.fits == case["fits"]
    _near(made.loss, case["loss"])
    _near(sent.values, np.reshape(case["values"], (-1, method.dim)))
    _near(sent.packed_gram, case["triangle"])


def replay_ledger(case: Case) -> None:
    entries = []
    for one in case["entries"]:
        rule = msgspec.convert(one["privacy"], plan.Privacy)
        noise, at = rule.charged_noise, one["at"]
        entries.append(ledger.Entry(one["step"], b"", noise, rule.delta, at, rule))
    limits: dict[str, Any] = {
        name: float(value) if isinstance(value, str) else value
        for name, value in case["floor"].items()
    }
    floor, offered = ledger.Floor(**limits), msgspec.convert(case["plan"], plan.Plan)
    assert ledger.why_not(entries, case["step"], offered, floor, case["now"]) == case["answer"]
    assert len(ledger.charged_steps(entries)) == case["charged"]
    assert ledger.epsilon(entries) == pytest.approx(float(case["epsilon"]), rel=1e-9)


def replay_accounting(case: Case) -> None:
    noise = charged_noise(case["noise"], case["coefficients"], case["bit_noise"])
    assert noise == pytest.approx(case["charged_noise"], rel=1e-9)
    charged = charged_epsilon(case["participations"], noise, case["delta"])
    assert charged == pytest.approx(float(case["epsilon"]), rel=1e-9)


def replay_sequence_of_round(case: Case) -> None:
    common, rows = _items(case["model"]), _part(case["sequence"])
    method = msgspec.convert(case["method"], SolveMethod)
    wanted = plan.sequence_of(method)
    assert wanted is not None
    left = list(case["uniform"])

    def uniform(count: int) -> Any:
        taken = left[:count]
        del left[:count]
        return np.array(taken)

    past = _history(case)
    draws = draw(len(window(past, wanted)), wanted, uniform)
    assert not left
    asked = ask(pose_sequence(past, wanted, draws), rows)
    made = answer(asked, expect(asked, rows, look_exactly))
    _near(made.loss, case["loss"])
    problem = pose_round(common, common.gram(), past, method)
    update = join_shares(problem, [compute_share(one) for one in problem.problems]).update
    sent = clip_share(
        RowUpdate(update.rows, update.values, update.packed_gram, 0, made.parts(wanted.scale)),
        msgspec.convert(case["privacy"], plan.Privacy),
    )
    assert sent.rows.tolist() == case["rows"]
    _near(sent.values, np.reshape(case["values"], (-1, method.dim)))
    _near(sent.packed_gram, case["triangle"])
    for part, stored in zip(sent.parts, case["parts"], strict=True):
        assert part.rows.tolist() == stored["rows"]
        _near(part.values, np.reshape(stored["values"], part.values.shape))


def replay_share_parts(case: Case) -> None:
    method = msgspec.convert(case["method"], SolveMethod)
    (raw,), parts = _bytes(case, "bytes"), more_parts(method, case["size"])
    got = share.decode_share(raw, method.dim, parts)
    got.check(case["size"], method.dim, parts)
    given = tuple(
        RowPart(np.array(one["rows"], dtype=np.int64), np.reshape(one["values"], (-1, part.width)))
        for one, part in zip(case["parts"], parts, strict=True)
    )
    values = np.reshape(case["values"], (-1, method.dim))
    update = RowUpdate(np.array(case["rows"]), values, np.array(case["triangle"]), 0, given)
    assert share.encode_share(update, np.array(case["uniform"]), parts) == raw
    for one, decoded in zip(got.parts, case["decoded"], strict=True):
        assert one.values.tolist() == decoded


def replay_split(case: Case) -> None:
    terms = numbers.Terms(
        bytes.fromhex(case["round"]), msgspec.convert(case["plan"], plan.Plan), case["items"]
    )
    more = tuple(
        RowPart(np.array(one["rows"], dtype=np.int64), np.reshape(one["values"], (-1, part.width)))
        for one, part in zip(case["parts"], terms.parts, strict=True)
    )
    values = np.reshape(case["values"], (-1, terms.method.dim))
    update = RowUpdate(np.array(case["rows"]), values, np.array(case["gram"]), 0, more)
    mine = numbers.to_numbers(update, terms, np.array(case["uniform"]))
    assert mine.rows.tolist() == case["number_rows"]
    assert mine.values.tolist() == case["number_values"]
    assert mine.whole.tolist() == case["number_whole"]
    assert mine.fits == case["fits"]
    made = report.make_report(terms, mine, bytes.fromhex(case["secret"]))
    (public, leader, helper) = _bytes(case, "public", "leader", "helper")
    assert (made.id.hex(), made.public, made.leader, made.helper) == (
        case["report"], public, leader, helper,
    )  # fmt: skip
    sums = [verify.RunningSum(terms, server) for server in (0, 1)]
    key = bytes.fromhex(case["verify_key"])
    for one, raw, name in zip(sums, (leader, helper), ("leader", "helper"), strict=True):
        seen = one.look(key, made.id, public, raw).seen
        assert hashlib.sha256(seen.encoded()).hexdigest() == case[f"seen_{name}"]
    both = field.to_signed(field.reduce(sums[0].share() + sums[1].share()))
    assert both.tolist() == case["sum"]


def replay_split_answers(case: Case) -> None:
    layout = Layout(**case["layout"])
    terms = vectors.vector_terms(bytes.fromhex(case["question"]), layout)
    assert (terms.whole, terms.limit) == (len(case["answer"]), case["limit"])
    mine = vectors.to_vector(np.array(case["answer"]), terms, np.array(case["uniform"]))
    assert mine.whole.tolist() == case["whole"]
    made = report.make_report(terms, mine, bytes.fromhex(case["secret"]))
    (public, helper) = _bytes(case, "public", "helper")
    assert (made.id.hex(), made.public, made.helper) == (case["report"], public, helper)
    assert hashlib.sha256(made.leader).hexdigest() == case["leader"]
    assert len(made.leader) == case["leader_bytes"]
    task = case["signed"][len("fedrap/2 question\n") * 2 + 4 :][:32]
    asked = shares.OpenQuestion(
        task=bytes.fromhex(task), question=terms.round, numbers=terms.whole, limit=terms.limit,
        noise=2.5, least=100, ends_at=0.0,
    )  # fmt: skip
    assert shares.question_bytes(asked, b"\4" * 65).hex() == case["signed"]


def replay_sequence_release(case: Case) -> None:
    (raw,) = _bytes(case, "bytes")
    old = case.get("old")
    if old is None:
        release = codec.decode(messages.Release, raw)
        common = releases.unpack_release(release)
    else:
        delta = codec.decode(messages.Delta, raw)
        held = CommonItems(1, _items(old["items"]).items, _part(old["sequence"]))
        common = releases.apply_delta(held, delta)
    new, part = _items(case["items"]).items, _part(case["sequence"])
    assert releases.model_hash(new, part).hex() == case["hash"]
    assert common.sequence is not None
    for found, stored in (
        (common.sequence.outputs, part.outputs),
        (common.sequence.offsets, part.offsets),
    ):
        assert np.array_equal(found.values, stored.values)
        assert np.array_equal(found.scales, stored.scales)
    assert np.array_equal(common.sequence.bias, part.bias)
    assert np.array_equal(common.sequence.kernels, part.kernels)


def _with_trend(items: Case, trend: Case) -> CommonItems:
    values = np.array([trend["values"]], dtype=np.int8)
    scales = np.array([trend["scale"]], dtype=np.float32)
    return CommonItems(1, _items(items).items, None, QuantizedRows(values, scales))


def replay_trend(case: Case) -> None:
    if case["of"] == "share":
        method = plan.trend_of(msgspec.convert({"name": "solve", **case["method"]}, SolveMethod))
        assert method is not None
        past = replace(_history(case), times=np.array(case["history"]["times"], dtype=np.float64))
        part = touched_lately(past, case["now"], method)
        assert part.rows.tolist() == case["rows"]
        _near(part.values[:, 0], case["values"])
    elif case["of"] == "release":
        (raw,) = _bytes(case, "bytes")
        if (old := case.get("old")) is None:
            found = releases.unpack_release(codec.decode(messages.Release, raw))
        else:
            held = _with_trend(old["items"], old["trend"])
            found = releases.apply_delta(held, codec.decode(messages.Delta, raw))
        stored = _with_trend(case["items"], case["trend"])
        assert releases.model_hash(stored.items, None, stored.trend).hex() == case["hash"]
        assert found.trend is not None
        assert stored.trend is not None
        assert np.array_equal(found.trend.to_float(), stored.trend.to_float())
    else:
        common, past = _with_trend(case["model"], case["trend"]), _history(case)
        scoring = msgspec.convert(case["scoring"], Scoring)
        taste = derive_user(common, common.gram(), past, scoring)
        allowed = np.ones(common.size, dtype=np.bool_)
        allowed[case["hidden"]] = False
        ranked = rank(common, taste, scoring, case["n"], allowed)
        assert ranked.rows.tolist() == case["rows"]
        trend = np.zeros(case["n"]) if ranked.trend is None else ranked.trend
        _near(trend, case["trend_parts"])
        why = explain(common, taste, scoring, case["rows"][0])
        assert why.trend == pytest.approx(case["reason_trend"])
        total = why.shared.sum() + why.personal.sum() + why.trend
        assert total == pytest.approx(ranked.scores[0])


def replay_sequence_ranking(case: Case) -> None:
    common = CommonItems(1, _items(case["model"]).items, _part(case["sequence"]))
    scoring, past = msgspec.convert(case["scoring"], Scoring), _history(case)
    mix = plan.sequence_scoring(scoring)
    assert mix is not None
    assert common.sequence is not None
    taste = derive_user(common, common.gram(), past, scoring)
    user = derive_query(common.sequence, past, mix)
    allowed = np.ones(common.size, dtype=np.bool_)
    allowed[case["hidden"]] = False
    found = rank(common, taste, scoring, case["n"], allowed, user)
    assert found.rows.tolist() == case["rows"]
    _near(found.shared, case["shared"])
    _near(found.personal, case["personal"])
    _near(found.sequence, case["sequence_parts"])
    _near(found.popularity, case["popularity"])
    why = explain(common, taste, scoring, case["rows"][0], user)
    assert why.items.tolist() == case["reason_items"]
    _near(why.shared, case["reason_shared"])
    _near(why.personal, case["reason_personal"])
    _near(why.sequence, case["reason_sequence"])
    _near(why.popularity, case["reason_popularity"])


def replay_answers(case: Case) -> None:
    if "rank" in case:
        _near(gains_of(case["rank"]), case["gains"])
    elif "ranks" in case:
        gains = ReleaseGains(1)
        for of_each in case["ranks"]:
            gains = gains.with_ranks(*of_each)
        assert gains.count == case["count"]
        for metric in METRICS:
            _near(gains.means(metric), case["means"][metric])
    elif "layout" in case:
        layout = Layout(*case["layout"])
        _near(layout.clip, case["clip"])
        answer = layout.vector(case["gains"], case["group"])
        assert pack(answer).hex() == case["answer"]
    else:
        key, name = _bytes(case, "private_key", "question")
        (uniform,) = private_stream(key, b"question " + name)(1)
        _near(case["asked_at"] + 0.9 * uniform * (case["ends_at"] - case["asked_at"]), case["at"])


def replay_trials(case: Case) -> None:
    if "lead" in case:
        _near(lead_of(case["before"], case["after"]), case["lead"])
    elif "ranks" in case:
        pair = PairedGains(1)
        for before, after in case["ranks"]:
            pair = pair.with_ranks(before, after)
        assert pair.count == case["count"]
        _near([pair.leads, pair.mean], [case["leads"], case["mean"]])
    elif "answer" in case:
        layout, mean = Layout(1, 1, 0, signed=True), case["mean"]
        _near(layout.clip, case["clip"])
        answer = layout.vector([None if mean is None else (mean,)], 0)
        assert pack(answer).hex() == case["answer"]
    elif "uniform" in case:
        key, name = _bytes(case, "private_key", "rollout")
        (uniform,) = private_stream(key, b"trial " + name)(1)
        assert uniform == case["uniform"]
    else:
        raw, key = _bytes(case, "bytes", "private_key")
        question = codec.decode(messages.Question, raw)
        assert codec.encode(question) == raw
        (uniform,) = private_stream(key, b"question " + question.question)(1)
        span = question.ends_at - question.asked_at
        _near(question.asked_at + (0.6 + 0.3 * uniform) * span, case["at"])


def replay_lists(case: Case) -> None:
    shares = shares_of(case["items"], bytes.fromhex(case["question"]), 16)
    assert {str(at): share for at, share in enumerate(shares) if share} == case["buckets"]
    layout = Layout(1, 1, 0, buckets=16)
    _near(layout.clip, case["clip"])
    assert pack(layout.vector([[case["popular"], *shares]], 0)).hex() == case["answer"]


def _part(stored: Case) -> SequenceRows:
    dim = stored["dim"]

    def quantized(name: str) -> QuantizedRows:
        values = np.array(stored[f"{name}_values"], dtype=np.int8).reshape(-1, dim)
        return QuantizedRows(values, np.array(stored[f"{name}_scales"], dtype=np.float32))

    return SequenceRows(
        quantized("output"),
        quantized("offset"),
        np.array(stored["bias"], dtype=np.float32),
        np.reshape(np.array(stored["kernels"], dtype=np.float32), (-1, dim)),
    )


REPLAYS: dict[str, Callable[[Case], None]] = {
    name.removeprefix("replay_"): replay
    for name, replay in list(globals().items())
    if name.startswith("replay_")
}


@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for name in sorted(FILES) for case in FILES[name]["cases"]],
    ids=lambda part: part if isinstance(part, str) else part["comment"],
)
def test_every_case_of_the_golden_vectors_is_replayed(name: str, case: Case) -> None:
    if case["valid"]:
        REPLAYS[name](case)
    else:
        with pytest.raises(getattr(errors, case["error"])):
            REPLAYS[name](case)


def test_every_file_has_a_replay_says_what_it_is_and_is_small() -> None:
    assert set(FILES) == set(REPLAYS)
    assert all(file["about"] and file["cases"] for file in FILES.values())
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 720_000


def test_every_message_has_a_vector() -> None:
    assert {case["type"] for case in FILES["codec"]["cases"] if case["valid"]} == set(KINDS)


def test_the_tool_still_makes_the_committed_vectors(capsys: pytest.CaptureFixture[str]) -> None:
    assert make_vectors.main(["--check"]) == 0, capsys.readouterr().err


def test_the_tool_writes_the_committed_bytes_and_keeps_seals(tmp_path: Path) -> None:
    for name in ("certificate", "seal", "signing", "token"):
        (tmp_path / f"{name}.json").write_bytes((FOLDER / f"{name}.json").read_bytes())
    assert make_vectors.main(["--folder", str(tmp_path)]) == 0
    for name in ("codec", "quantize", "release", "seal", "share", "signing"):
        assert (tmp_path / f"{name}.json").read_bytes() == (FOLDER / f"{name}.json").read_bytes()


def nudged(text: str, by: float) -> str:
    """The first u of a file of vectors, its first number moved by `by`."""
    found = re.search(r'"user": \[(-?[0-9.e-]+)', text)
    assert found is not None
    moved = repr(float(found[1]) + by)
    assert moved != found[1]
    return text[: found.start(1)] + moved + text[found.end(1) :]


def test_the_tool_sees_a_difference_and_a_missing_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make_vectors.main(["--folder", str(tmp_path)]) == 0
    assert make_vectors.main(["--folder", str(tmp_path), "--check"]) == 0
    solve = (tmp_path / "solve.json").read_text("utf-8")
    (tmp_path / "solve.json").write_text(nudged(solve, 1e-7), "utf-8")
    (tmp_path / "share.json").unlink()
    (tmp_path / "stray.json").write_text("{}", "utf-8")
    assert make_vectors.main(["--folder", str(tmp_path), "--check"]) == 1
    said = capsys.readouterr().err
    assert "solve.json: $.cases[0].user[0]" in said
    assert "share.json: missing" in said
    assert "stray.json" in said


def test_a_last_digit_of_another_platform_is_no_difference(tmp_path: Path) -> None:
    make_vectors.main(["--folder", str(tmp_path)])
    solve = (tmp_path / "solve.json").read_text("utf-8")
    (tmp_path / "solve.json").write_text(nudged(solve, 2e-12), "utf-8")
    assert make_vectors.main(["--folder", str(tmp_path), "--check"]) == 0
