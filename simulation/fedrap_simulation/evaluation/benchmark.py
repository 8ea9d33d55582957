"""`fedrap-sim benchmark`: one fixed protocol over all sets at hand, one page.

Fixed are: protocol `clean`, leave the newest out (one at random where there is no time), users with
at least ten interactions, settings chosen on the validation of seed 0, NDCG@10 in full ranking with
ties against a method, paired intervals over users against the best simple method. What may be
chosen are sets, methods and the number of seeds.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fedrap_simulation.data.errors import BadData, MissingData
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.data.load import load
from fedrap_simulation.data.times import are_real
from fedrap_simulation.evaluation.compare import Mean, means
from fedrap_simulation.evaluation.fairness import POPULARITY
from fedrap_simulation.evaluation.results import Answer
from fedrap_simulation.evaluation.runner import Evaluation, Request, Tell

SETS = ("ml-100k", "ml-1m", "amazon-video", "amazon-sports", "tafeng", "lastfm-2k", "citeulike-a")
SIMPLE = ("popularity", "popularity-recent", "itemknn", "ease", "ials",
          "itemknn-recency", "ease-recency", "markov", "transitions", "slist", "stan",
          "itemknn-lately")  # fmt: skip
OURS = ("fedrap", "fedrap-sequence", "fedrap-trend")
BY_TIME = ("popularity-recent", "itemknn-lately", "fedrap-trend")
BY_ORDER = ("itemknn-recency", "ease-recency", "markov", "transitions", "slist", "stan")
LEAST = 10
WHOLE = 12_000  # items up to which methods with a weight for each pair of items are run
PAIRS = ("ease", "ease-recency", "slist")


@dataclass(frozen=True)
class BenchmarkRequest:
    """What may be chosen."""

    sets: tuple[str, ...] = SETS
    methods: tuple[str, ...] = ()  # beside the fixed ones: names, or files that end in .py
    only: tuple[str, ...] = ()  # instead of them
    seeds: int = 3
    data_dir: Path | None = None
    cache: Path | None = None


class SetResult(msgspec.Struct, frozen=True, kw_only=True):
    """One set of data."""

    name: str
    users: int
    items: int
    interactions: int
    split: str
    warnings: list[str]
    simple: str | None  # the best simple method by the mean of its seeds
    left_out: dict[str, str]  # methods that were not run, and why
    means: list[Mean]
    rows: list[Any]


class BenchmarkResult(msgspec.Struct, frozen=True, kw_only=True):
    """All sets; `missing` says which were asked for and are not there."""

    command: str
    seeds: int
    missing: dict[str, str]
    sets: list[SetResult]


def run_benchmark(request: BenchmarkRequest, tell: Tell) -> BenchmarkResult:
    """Every set at hand.

    Raises:
        BadData: a set is broken, a method is unknown, or no set is there.
    """
    missing: dict[str, str] = {}
    found: list[SetResult] = []
    for name in request.sets:
        try:
            data = load(name, request.data_dir)
        except MissingData:
            missing[name] = f"{name} is not there; docs/data.md says where its owners offer it"
            continue
        found.append(_one_set(name, data, request, tell))
    if not found:
        raise BadData("none of the sets is there: " + "; ".join(missing.values()))
    return BenchmarkResult(
        command=command_of(request), seeds=request.seeds, missing=missing, sets=found
    )


def methods_for(data: Interactions, request: BenchmarkRequest) -> tuple[list[str], dict[str, str]]:
    """Who is run on a set, and who is not and why."""
    wanted = list(dict.fromkeys([*(request.only or (*SIMPLE, *OURS)), *request.methods]))
    left_out = {name: why for name in wanted if (why := _why_not(name, data)) is not None}
    return [name for name in wanted if name not in left_out], left_out


def _why_not(name: str, data: Interactions) -> str | None:
    if name in BY_ORDER and data.time is None:
        return "the set has no order"
    if name in BY_TIME and not are_real(data):
        return "times are no times"
    if name in PAIRS and len(data.items) > WHOLE:
        return f"a weight for each pair of {len(data.items):,} items"
    return None


def _one_set(name: str, data: Interactions, request: BenchmarkRequest, tell: Tell) -> SetResult:
    methods, left_out = methods_for(data, request)
    evaluation = Evaluation(
        Request(
            name, tuple(methods), seeds=request.seeds, least=LEAST,
            data_dir=request.data_dir, cache=request.cache,
        ),
        data,
    )  # fmt: skip
    answers = list(evaluation.run(tell))
    simple = best_simple(answers)
    first = answers[0].row
    return SetResult(
        name=name,
        users=first.users,
        items=first.items,
        interactions=len(data),
        split=evaluation.kind,
        warnings=evaluation.warnings(),
        simple=simple,
        left_out=left_out,
        means=means(answers, simple),
        rows=[answer.row for answer in answers],
    )


def best_simple(answers: Sequence[Answer]) -> str | None:
    """The simple method with the highest mean of NDCG@10 in full ranking."""
    found = [one for one in means(answers, None) if one.method in SIMPLE]
    return max(found, key=lambda one: one.mean["ndcg10_full"]).method if found else None


def command_of(request: BenchmarkRequest) -> str:
    """The command without folders, which are nobody else's."""
    parts = ["fedrap-sim", "benchmark", "--sets", ",".join(request.sets)]
    if request.only:
        parts += ["--only", ",".join(Path(one).name for one in request.only)]
    if request.methods:
        parts += ["--method", ",".join(Path(one).name for one in request.methods)]
    return " ".join(shlex.quote(part) for part in [*parts, "--seeds", str(request.seeds)])


def page(result: BenchmarkResult) -> str:
    """The one page, in Markdown."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: BenchmarkResult) -> Iterator[str]:
    yield "# Benchmark"
    yield ""
    yield (
        "Protocol `clean`: settings chosen on validation, the test looked at once, full ranking "
        f"without seen items, ties against a method, users with at least {LEAST} interactions, "
        f"{result.seeds} seed(s). The last column is the difference in NDCG@10 to the best simple "
        "method of the set with a 95 % interval, paired over users."
    )
    yield ""
    yield f"```sh\n{result.command}\n```"
    for one in result.sets:
        yield from _set_lines(one)
    for why in result.missing.values():
        yield f"\nLeft out: {why}."


def _set_lines(one: SetResult) -> Iterator[str]:
    yield f"\n## {one.name}"
    yield ""
    yield (
        f"{one.users:,} users, {one.items:,} items, {one.interactions:,} interactions, "
        f"split {one.split}."
    )
    for words in one.warnings:
        yield f"Mind: {words}."
    yield ""
    yield (
        "| method | HR@10 | NDCG@10 | ± seeds | head | middle | tail | coverage | Gini "
        "| to the best simple |"
    )
    yield "|---|" + "---:|" * 9
    for line in sorted(one.means, key=lambda line: line.mean["ndcg10_full"]):
        yield _method_line(line, one.simple)
    if one.left_out:
        yield ""
        yield "Left out: " + "; ".join(f"{name}: {why}" for name, why in one.left_out.items()) + "."


def _method_line(line: Mean, simple: str | None) -> str:
    name = Path(line.method).stem if line.method.endswith(".py") else line.method
    name = f"**{name}**" if line.method == simple else name
    cells = [name, f"{line.mean['hr10_full']:.4f}", f"{line.mean['ndcg10_full']:.4f}"]
    cells.append(f"{line.deviation['ndcg10_full']:.4f}" if line.seeds > 1 else "–")
    groups = (line.mean.get(f"ndcg10_{group}") for group in POPULARITY)
    cells += ["–" if value is None else f"{value:.3f}" for value in groups]
    cells += [f"{line.mean['coverage']:.2f}", f"{line.mean['gini']:.2f}"]
    against = line.against
    cells.append(
        f"{against['ndcg10_full']:+.4f} ({against['low']:+.4f} … {against['high']:+.4f})"
        if against
        else ""
    )
    return "| " + " | ".join(cells) + " |"
