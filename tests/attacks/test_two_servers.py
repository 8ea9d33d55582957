"""What a curious or cheating party gets out of `split`: one server, both, and devices that lie.

Every attack on one server is run against both together too, where it must succeed: an attack that
cannot find anything would show nothing.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap_core.split.dpf import ReportBlocks, expand
from fedrap_core.split.field import reduce, sub, to_signed
from fedrap_core.split.numbers import add_noise, join_sums, server_noise
from fedrap_core.split.report import make_report, read_public
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.shares import SplitUpdate
from testkit.harness import ITEMS, small_settings
from testkit.pair import LocalHelper
from tests.core.split.made import Pair, secret_of, some_numbers, some_terms
from tests.end_to_end.test_split_over_http import serve_pair, split_device

TERMS = some_terms(items=80, dim=4, rows=6)


def expanded(server: int, seed: int) -> np.ndarray:
    """One server's share of every row of the model: (items, width)."""
    report = make_report(TERMS, some_numbers(TERMS, seed), secret_of(seed))
    public = read_public(TERMS, report.public)
    blocks = ReportBlocks.of(TERMS.round, report.id)
    layout, width = TERMS.shape.layout, TERMS.shape.width
    own = (report.leader, report.helper)[server][:16]
    into = np.zeros((layout.slots, layout.size, width), np.uint32)
    expand(TERMS.shape, blocks, server, own, public.core, into, lambda _: None)
    slots, positions = layout.places(np.arange(TERMS.items))
    tables = into[slots, positions].astype(np.uint64)  # (3, items, width)
    return np.asarray(tables)


def auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """How often an item of the device is ranked above another one."""
    mine, others = scores[truth], scores[~truth]
    wins = np.sum(mine[:, None] > others[None]) + 0.5 * np.sum(mine[:, None] == others[None])
    return float(wins / (len(mine) * len(others)))


@pytest.mark.parametrize("who", ["leader", "helper", "both"])
def test_one_server_alone_finds_no_item_and_both_find_all(who: str) -> None:
    found, values, truth_values = [], [], []
    for seed in range(30):
        numbers = some_numbers(TERMS, seed)
        truth = np.zeros(TERMS.items, dtype=np.bool_)
        truth[numbers.rows[numbers.values.any(axis=1)]] = True
        if who == "both":
            joined = to_signed(reduce(sub(expanded(0, seed), expanded(1, seed)))).sum(axis=0)
        else:  # the best that one side can do: words that are small, in any table
            mine = to_signed(reduce(expanded(int(who == "helper"), seed)))
            joined = mine.sum(axis=0)
            small = -np.abs(mine).min(axis=(0, 2))
            found.append(auc(small, truth))
        if who == "both":
            found.append(auc(np.abs(joined).max(axis=1), truth))
        values.append(joined[numbers.rows].ravel())
        truth_values.append(numbers.values.ravel())
    mean = float(np.mean(found))
    alike = float(np.corrcoef(np.concatenate(values), np.concatenate(truth_values))[0, 1])
    if who == "both":
        assert mean == 1.0
        assert alike > 0.999
    else:
        assert abs(mean - 0.5) < 0.08
        assert abs(alike) < 0.15


def test_a_sum_of_one_victim_and_fakes_is_covered_by_one_servers_noise() -> None:
    """A leader whose other devices are fakes knows their numbers; the helper's noise is left."""
    terms = some_terms(items=80, noise=1.0)
    guesses: list[float] = []
    for with_noise in (True, False):
        right = 0
        for seed in range(40):
            pair = Pair(terms)
            victim = some_numbers(terms, seed % 2)
            pair.offer(make_report(terms, victim, secret_of(seed)))
            noise = server_noise(terms, secret_of(seed), 1, {}) * int(with_noise)
            helper = add_noise(pair.helper.share(), noise)
            leader = add_noise(pair.leader.share(), noise * 0)  # it leaves its own noise out
            seen = join_sums(terms, leader, helper, 1, 1).total
            dense = np.zeros((terms.items, terms.method.dim))
            dense[seen.rows] = seen.values
            fits = []
            for guess in (0, 1):
                known = some_numbers(terms, guess)
                fits.append(float(np.sum(dense[known.rows] * known.values)))
            right += int(np.argmax(fits)) == seed % 2
        guesses.append(right / 40)
    assert guesses[1] == 1.0  # without noise the victim lies bare: the attack works
    assert guesses[0] < 0.95  # z = 1, one round: an epsilon of about 4 allows this much


@pytest.mark.parametrize("what", ["twice", "altered", "oversized", "another report's"])
async def test_bad_reports_are_refused_with_their_reason(tmp_path: Path, what: str) -> None:
    helper = LocalHelper(tmp_path / "helper")
    async with serve_pair(small_settings(updates=3), helper) as live:
        device = await split_device(live, tmp_path / "a", ITEMS[:3], helper.identity)
        sent: list[bytes] = []
        transport = device._session._access.transport  # what the app handed in
        assert transport is not None
        kept = transport.send_update

        async def change(signer: object, round_id: bytes, body: bytes) -> object:
            update = decode(SplitUpdate, body)
            if what == "altered":
                spoilt = bytearray(update.public)
                spoilt[len(spoilt) // 2] ^= 1
                update = msgspec.structs.replace(update, public=bytes(spoilt))
            elif what == "oversized":
                update = msgspec.structs.replace(update, public=update.public + b"\0")
            elif what == "another report's":
                update = msgspec.structs.replace(update, report=bytes(16))
            sent.append(encode(update))
            answer = await kept(signer, round_id, sent[-1])  # type: ignore[arg-type]
            if what == "twice":
                answer = await kept(signer, round_id, sent[-1])  # type: ignore[arg-type]
            return answer

        transport.send_update = change  # type: ignore[method-assign,assignment]
        report = await device.run_round_async()
        assert sent
        if what == "twice":  # the same bytes again are no second update
            assert report.joined
        else:
            assert report.blocked_by == "malformed"
    helper.close()


async def test_nothing_that_names_a_device_reaches_the_helper(tmp_path: Path) -> None:
    helper = LocalHelper(tmp_path / "helper")
    async with serve_pair(small_settings(updates=2, total=1), helper) as live:
        devices = [
            await split_device(live, tmp_path / str(n), ITEMS[n : n + 3], helper.identity)
            for n in range(2)
        ]
        for device in devices:
            assert (await device.run_round_async()).joined
        names = [d._state.contents().credentials.device for d in devices]  # type: ignore[union-attr]
        lengths = set()
        for message in helper.seen:
            raw = encode(message)
            assert not any(name in raw for name in names)
            for report in getattr(message, "reports", []):
                lengths.add((len(report.public), len(report.helper), len(report.seen)))
        assert len(lengths) == 1  # all users alike
        database = (tmp_path / "helper" / "helper.sqlite").read_bytes()
        assert not any(name in database for name in names)
    helper.close()
