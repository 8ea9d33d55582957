"""The inner workings of the learnt methods against slow, plain versions of the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedrap_simulation.methods.baselines import federated
from fedrap_simulation.methods.baselines.adam import Adam
from fedrap_simulation.methods.baselines.attention import Attention
from fedrap_simulation.methods.baselines.federated import blocks, draw_examples
from fedrap_simulation.methods.baselines.gru4rec import Recurrent
from fedrap_simulation.methods.baselines.lightgcn import LightGcn, adjacency
from fedrap_simulation.methods.baselines.ncf import Ncf
from fedrap_simulation.methods.baselines.negatives import NegativeSampler
from fedrap_simulation.methods.baselines.next_item import (
    batches,
    logits,
    next_loss,
    padded,
    sampled_cross_entropy,
)
from fedrap_simulation.methods.baselines.pfedrec import PFedRec

from .planted import by_hand, planted_split


def network(items: int = 30) -> Attention:
    draw = torch.Generator().manual_seed(4)
    return Attention.start(items, 16, 2, 2, 12, 0.3, draw)


def test_attention_never_looks_ahead() -> None:
    net = network()
    rows = torch.arange(10)[None, :]
    changed = rows.clone()
    changed[0, 6] = 29
    before, after = net.hidden(rows, None), net.hidden(changed, None)
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:])


def test_padding_does_not_change_a_history() -> None:
    task = by_hand([(0, 1), (0, 2), (1, 3), (1, 4), (1, 5), (1, 6)], 2, 30, np.array([0, 0]))
    net = network()
    together, ends = padded(task.train, np.array([0, 1]), 3)
    assert together.tolist() == [[1, 2, 0], [4, 5, 6]]  # the newest three
    assert ends.tolist() == [1, 2]
    alone, end = padded(task.train, np.array([0]), 3)
    padded_, plain = net.hidden(together, None)[0, ends[0]], net.hidden(alone, None)[0, end[0]]
    assert torch.allclose(padded_, plain, atol=1e-5)


def testsampled_cross_entropy_nears_the_full_one() -> None:
    net = network()
    draw = torch.Generator().manual_seed(1)
    hidden = torch.randn((40, 16), generator=draw) * 20
    wanted = torch.randint(30, (40,), generator=draw)
    full = torch.nn.functional.cross_entropy(logits(net, hidden), wanted)
    near = sampled_cross_entropy(net, hidden, wanted, 60_000, draw)
    assert torch.isclose(near, full, rtol=0.02)
    assert full > 0.5


def test_the_loss_is_the_cross_entropy_over_all_items_at_every_place() -> None:
    """Each place written out: also above 2,000 items, where once a sample stood for them."""
    net = network(2_500)
    batch = torch.tensor([[3, 1, 2, -1], [2_400, 5, 7, 8]])
    draw = torch.Generator().manual_seed(1)
    quiet = replace(net, dropout=0.0)
    hidden = quiet.hidden(batch[:, :-1].clamp(min=0), None)  # (2, 3, d)
    surprise = []
    for row, place, item in [(0, 0, 1), (0, 1, 2), (1, 0, 5), (1, 1, 7), (1, 2, 8)]:
        scores = quiet.item @ hidden[row, place] + quiet.bias
        surprise.append(torch.log(torch.exp(scores).sum()) - scores[item])
    expected = torch.stack(surprise).mean()
    assert torch.isclose(next_loss(quiet, batch, 3, draw), expected, rtol=1e-4)


def test_a_recurrent_network_is_its_recurrence() -> None:
    net = Recurrent.start(20, 6, 12, 0.3, torch.Generator().manual_seed(2))
    with torch.no_grad():
        for bias in net.weights[2:]:
            bias += torch.linspace(-0.5, 0.5, 18)
        rows = torch.tensor([[4, 9, 1, 0]])
        w, u, b, c = (one.numpy() for one in net.weights)
        h, found = np.zeros(6), net.hidden(rows, None)[0].numpy()
        for place, item in enumerate(rows[0].tolist()):
            x = net.item[item].numpy()
            into, back = w @ x + b, u @ h + c
            r, z = (1 / (1 + np.exp(-(into + back)[part])) for part in (slice(6), slice(6, 12)))
            n = np.tanh(into[12:] + r * back[12:])
            h = (1 - z) * n + z * h
            np.testing.assert_allclose(found[place], h, rtol=1e-4, atol=1e-6)


def test_batches_hold_every_history_once_in_order() -> None:
    train = planted_split().test.train
    seen: dict[tuple[int, ...], int] = {}
    for batch in batches(train, 200, np.random.default_rng(0)):
        for row in batch:
            key = tuple(row[row >= 0].tolist())
            seen[key] = seen.get(key, 0) + 1
    assert seen == {tuple(train.of(user).tolist()): 1 for user in range(len(train))}
    cut = torch.cat([b.ravel() for b in batches(train, 4, np.random.default_rng(0))])
    assert len(cut) == 5 * len(train)


def test_lightgcn_slope_is_that_of_the_loss_through_the_dense_graph() -> None:
    task = planted_split().test
    graph = adjacency(task)
    method = LightGcn(width=4, layers=3, decay=1e-2)
    draw = torch.Generator().manual_seed(2)
    start = torch.randn((task.users + task.items, 4), generator=draw)
    rows = torch.stack(
        [
            torch.randint(task.users, (50,), generator=draw),
            task.users + torch.randint(task.items, (50,), generator=draw),
            task.users + torch.randint(task.items, (50,), generator=draw),
        ]
    )
    dense = torch.from_numpy(graph.toarray())
    x = start.clone().requires_grad_()
    final = (x + dense @ x + dense @ dense @ x + dense @ dense @ dense @ x) / 4
    user, better, worse = (final[one] for one in rows)
    loss = -torch.log(torch.sigmoid((user * (better - worse)).sum(1))).mean()
    loss = loss + 0.5 * 1e-2 * x[rows.ravel()].square().sum() / 50
    loss.backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.allclose(method._slope(graph, start, rows), x.grad, rtol=1e-3, atol=1e-5)


def test_lightgcn_graph_has_the_training_edges_and_no_other() -> None:
    task = planted_split().test
    graph = adjacency(task)
    assert graph.nnz == 2 * len(task.train.items)
    assert graph[np.arange(task.users), task.users + task.targets].sum() == 0


def test_ncf_scores_are_the_logits_it_was_trained_on() -> None:
    task = planted_split().test
    net = next(Ncf(width=8).learn(task, 0))
    logits = net.logits(torch.full((task.items,), 9), torch.arange(task.items))
    np.testing.assert_allclose(net.scores(np.array([9]))[0], logits.detach().numpy(), atol=1e-5)


def test_examples_of_a_round_are_all_positives_and_four_draws_each() -> None:
    task = planted_split().test
    sampler = NegativeSampler(task.barred, task.items)
    users = np.array([3, 8])
    one = draw_examples(task, sampler, users, 4, np.random.default_rng(0))
    for user in users:
        mine = one.user == user
        touched = mine & (one.label == 1)
        assert set(one.item[touched].tolist()) == set(task.train.of(user).tolist())
        assert one.weight[mine & (one.label == 0)].sum() == 4 * len(task.train.of(user))
        assert np.isclose((one.weight * one.share)[mine].sum(), 1.0)
    assert set(one.user.tolist()) == {3, 8}


def test_blocks_cover_every_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    task = planted_split().test
    assert [len(part) for part in blocks(task, 4)] == [task.users]
    monkeypatch.setattr(federated, "BLOCK_EXAMPLES", 700)
    parts = list(blocks(task, 4))
    assert len(parts) > 10
    assert np.concatenate(parts).tolist() == list(range(task.users))


def test_pfedrec_round_is_each_device_on_its_own_copy_of_the_table() -> None:
    task = planted_split().test
    method = PFedRec(width=4, rate=0.3, eta=2.0 * 256 / (0.3 * task.items))
    rng = np.random.default_rng(3)
    sampler = NegativeSampler(task.barred, task.items)
    one = draw_examples(task, sampler, np.array([0, 5]), 4, rng)
    item = rng.normal(size=(task.items, 4)).astype(np.float32)
    function = rng.normal(size=(task.users, 4)).astype(np.float32)
    bias = np.zeros(task.users, dtype=np.float32)
    new_function, new_bias = function.copy(), bias.copy()
    push, moved = method._device_round(one, item, new_function, new_bias)
    total = np.zeros_like(item, dtype=np.float64)
    for user in (0, 5):
        mine = one.user == user
        rows, label, weight = one.item[mine], one.label[mine], one.weight[mine]
        table, f, b = item.astype(np.float64), function[user].astype(np.float64), 0.0
        error = weight * (1 / (1 + np.exp(-(table[rows] @ f + b))) - label)
        f = f - 0.3 * error @ table[rows] / weight.sum()
        b = b - 0.3 * error.sum() / weight.sum()
        error = weight * (1 / (1 + np.exp(-(table[rows] @ f + b))) - label)
        own = table.copy()
        np.subtract.at(own, rows, 2.0 * error[:, None] * f)
        total += own - table
        np.testing.assert_allclose(new_function[user], f, rtol=1e-4)
        np.testing.assert_allclose(new_bias[user], b, rtol=1e-4)
        expected = own @ f - table @ f  # what the device's own copy adds to each score
        np.testing.assert_allclose(moved[[user]].toarray()[0], expected, atol=1e-4)
    np.testing.assert_allclose(push, total, atol=1e-4)
    untouched = np.setdiff1d(np.arange(task.users), [0, 5])
    np.testing.assert_array_equal(new_function[untouched], function[untouched])


def test_adam_follows_the_published_formula() -> None:
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(5, 3))
    ours = torch.from_numpy(plain.copy())
    still = torch.ones(2)
    optimizer = Adam([ours, still], 0.05, decay=0.1, betas=(0.8, 0.95), eps=1e-3)
    mean, square = np.zeros((5, 3)), np.zeros((5, 3))
    for step in range(1, 8):
        slope = rng.normal(size=(5, 3))
        ours.grad = torch.from_numpy(slope.copy())
        optimizer.step()
        slope = slope + 0.1 * plain
        mean = 0.8 * mean + 0.2 * slope
        square = 0.95 * square + 0.05 * slope**2
        plain -= 0.05 * (mean / (1 - 0.8**step)) / (np.sqrt(square / (1 - 0.95**step)) + 1e-3)
    np.testing.assert_allclose(ours.numpy(), plain)
    assert ours.grad is None
    assert still.tolist() == [1.0, 1.0]
