"""Items alike in the shared view, and u following each new interaction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedrap.recommend.local_model import LocalModel, Wish
from fedrap.recommend.release import ItemList, head_of
from fedrap.results import Interaction
from fedrap_core.items import join_ids
from fedrap_core.model import CommonItems
from fedrap_core.plan import Scoring
from fedrap_core.quantize import quantize_rows
from fedrap_core.ranking import similar
from fedrap_core.wire.releases import pack_release
from tests.sdk.made import MadeCoordinator, a_device, a_release

NAMES = ["drama-1", "drama-2", "comedy-1", "comedy-2", "untaught", "retired"]
ROWS = [[1.0, 0.1], [0.9, 0.2], [0.0, 1.0], [0.1, 2.0], [0.0, 0.0], [1.0, 0.1]]


def _model(rows: list[list[float]] = ROWS) -> LocalModel:
    common = CommonItems(1, quantize_rows(np.array(rows)))
    head = head_of(pack_release(bytes(16), 1, common, 1, Scoring()))
    retired = np.array([5], dtype="<u4").tobytes()
    return LocalModel(head, common, ItemList(1, len(NAMES), join_ids(NAMES), retired))


@pytest.mark.spec("7.20")
def test_nobody_passed_over_a_retired_item_but_a_history_with_one_still_counts() -> None:
    model = _model()
    whole = model.common.items.to_float().astype(np.float64)
    np.testing.assert_allclose(model.gram, whole[:5].T @ whole[:5], rtol=1e-6)
    recorded = [Interaction("retired", "view", 1.0, 0.0)]
    found = model.recommend(recorded, None, Wish(6))
    assert {one.item for one in found}.isdisjoint({"retired"})
    assert [one.item for one in found][:2] == ["drama-1", "drama-2"]  # it is like those


def test_the_most_alike_come_first_whatever_their_length() -> None:
    assert [name for name, _ in _model().similar("comedy-1", 2)] == ["comedy-2", "drama-2"]
    ((name, cosine),) = _model().similar("drama-1", 1)
    assert name == "drama-2"
    assert 0.9 < cosine <= 1.0


def test_an_item_is_not_alike_itself_nor_retired_nor_untaught_ones() -> None:
    found = {name for name, _ in _model().similar("drama-1", 10)}
    assert found == {"drama-2", "comedy-1", "comedy-2"}


@pytest.mark.parametrize("item", ["unknown", "untaught"])
def test_an_item_that_nothing_is_known_of_is_alike_nothing(item: str) -> None:
    assert _model().similar(item, 3) == []


def test_the_cosine_is_that_of_the_rows() -> None:
    rng = np.random.default_rng(3)
    common = CommonItems(1, quantize_rows(rng.normal(size=(30, 5))))
    rows, cosines = similar(common, 4, 29, np.ones(30, dtype=np.bool_))
    whole = common.items.to_float().astype(np.float64)
    unit = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    np.testing.assert_allclose(cosines, unit[rows] @ unit[4], atol=1e-6)
    assert list(cosines) == sorted(cosines, reverse=True)


def test_a_device_finds_similar_items_offline(tmp_path: Path) -> None:
    with a_device(tmp_path, MadeCoordinator(latest=a_release(version=2))) as device:
        assert device.similar_items("item-1") == []  # nothing was fetched yet
        device.sync()
        found = device.similar_items("item-1", 3)
        assert len(found) == 3
        assert "item-1" not in dict(found)


def test_recommending_after_each_tap_equals_recommending_from_scratch() -> None:
    rng = np.random.default_rng(5)
    rows: list[list[float]] = rng.normal(size=(6, 2)).tolist()
    following, recorded = _model(rows), []
    for number, item in enumerate(["drama-1", "comedy-1", "drama-1", "gone", "comedy-2"]):
        recorded.append(Interaction(item, "view", 1.0 + number, 0.0))
        wish = Wish(5, filter_seen=False, reasons=True)
        live = following.recommend(recorded, None, wish)
        anew = _model(rows).recommend(recorded, None, wish)
        assert [one.item for one in live] == [one.item for one in anew]
        for one, other in zip(live, anew, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-9)
            assert sum(why.shared for why in one.reasons) == pytest.approx(one.shared, abs=1e-9)
