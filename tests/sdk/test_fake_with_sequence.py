"""An app's own tests against a coordinator in memory whose plan has a sequence part."""

from __future__ import annotations

from pathlib import Path

from fedrap import FedRap, Floor, Kinds
from fedrap.testing import FakeCoordinator
from fedrap_core.plan import Plan, SequenceMethod, SolveMethod

ITEMS = [f"item-{row}" for row in range(10)]


def test_a_device_takes_part_and_explains_both_parts(tmp_path: Path) -> None:
    plan = Plan(method=SolveMethod(sequence=SequenceMethod(dim=3, taus=(1.0,))))
    fake = FakeCoordinator(ITEMS, plan=plan)
    floor = Floor.without_privacy(min_updates=2)
    with FedRap.open(tmp_path, transport=fake, token="any", floor=floor) as device:
        device.consent(train=True, policy="test")
        for item in ITEMS[:3]:
            device.record(item)
        assert device.run_round().joined
        (sent,) = fake.updates
        inputs, outputs, kernels = sent.share.parts
        assert inputs.rows.tolist() == [0, 1, 2]
        assert outputs.values.shape[1] == 4
        assert kernels.values.shape == (1, 3)
        fake.publish(new_items=["new"])
        device.sync()
        best = device.recommend(1, explain=True)[0]
        assert best.item in ITEMS[3:5]  # what was planted still decides
        assert best.sequence != 0
        assert abs(sum(reason.sequence for reason in best.reasons) - best.sequence) < 1e-9


def test_what_was_disliked_is_in_no_window_and_reasons_still_add_up(tmp_path: Path) -> None:
    plan = Plan(method=SolveMethod(sequence=SequenceMethod(dim=3, taus=(1.0,))))
    fake = FakeCoordinator(ITEMS, plan=plan)
    floor = Floor.without_privacy(min_updates=2)
    kinds = Kinds(view=1, dislike=-1)
    with FedRap.open(tmp_path, transport=fake, token="any", floor=floor, kinds=kinds) as device:
        device.consent(train=True, policy="test")
        for item in ITEMS[:4]:
            device.record(item)
        device.record(ITEMS[1], kind="dislike")  # ends what the view said
        assert device.run_round().joined
        (sent,) = fake.updates
        assert sent.share.parts[0].rows.tolist() == [0, 2, 3]
        for best in device.recommend(3, explain=True):
            why = {reason.item: reason.sequence for reason in best.reasons}
            assert why[ITEMS[1]] == 0.0
            assert abs(sum(why.values()) - best.sequence) < 1e-9
