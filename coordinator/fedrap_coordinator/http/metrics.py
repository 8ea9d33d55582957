"""What a coordinator counts of itself, for Prometheus and for the dashboard.

Counters hold numbers, routes and problem codes; never a device, an address or an item.
"""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Callable, Iterable, Iterator, Mapping

from aiohttp import web
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from fedrap_coordinator.admin.documents import program_version
from fedrap_coordinator.admin.monitor import PHASES
from fedrap_coordinator.http.problems import ProblemAnswer

_BUILD = "fedrap_build"
_ROUND_ROUTES = frozenset({"offers", "updates"})  # their refusals belong to the open round
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROUND_SECONDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
VERSION = program_version()
Gauges = Mapping[str, float]


class Metrics:
    """The counters of one process; `gauges` is asked when somebody looks."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Histogram(
            "fedrap_request_seconds", "Time to answer a request.", ["route", "status"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._up = self._counter("fedrap_received_bytes", "Bodies of requests.", "route")
        self._down = self._counter("fedrap_sent_bytes", "Bodies of answers.", "route")
        self._accepted = self._counter("fedrap_updates_accepted", "Updates that were kept.")
        self._refused = self._counter(
            "fedrap_refusals", "Requests that were refused.", "route", "problem"
        )
        self._rounds = Histogram(
            "fedrap_round_seconds", "From opening a round to its end.", ["phase"],
            buckets=_ROUND_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._database = Histogram(
            "fedrap_database_seconds", "Transactions, from asking for one to its end.", ["kind"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        Info(_BUILD, "What runs.", registry=self.registry).info({"version": VERSION})
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._found: dict[tuple[str, int], tuple[Histogram, Counter, Counter]] = {}
        self._pending: Sums[str] = Sums()
        self.bytes_up = self.bytes_down = 0
        self._tasks: Mapping[str, Metrics] = {}

    def show_tasks(self, tasks: Mapping[str, Metrics]) -> None:
        """Tell every number with the task that it is of, itself among them."""
        self._tasks = tasks

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self.registry)

    def add_gauges(self, gauges: Callable[[], Gauges]) -> None:
        """Numbers that are read at the moment of looking."""
        self.registry.register(_Gauges(gauges))

    def observe_round(self, phase: str, seconds: float) -> None:
        """A round is over."""
        self._rounds.labels(phase).observe(max(0.0, seconds))

    def observe_database(self, kind: str, seconds: float) -> None:
        """A transaction is over."""
        self._database.labels(kind).observe(seconds)

    def take_refusals(self) -> dict[str, int]:
        """What was refused to devices in rounds since the last call."""
        taken, self._pending = dict(self._pending), Sums()
        return taken

    def give_back(self, counts: Mapping[str, int]) -> None:
        """They could not be written down; they come with the next call."""
        self._pending.update(counts)

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        if not self._tasks:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        together.register(_OfTasks({name: one.registry for name, one in self._tasks.items()}))
        return generate_latest(together)

    def count(self, request: web.Request, answer: web.StreamResponse, seconds: float) -> None:
        """A request of a device was answered after so many seconds."""
        route = request.match_info.route.name or "?"
        up = request.content_length or 0
        down = answer.content_length or 0
        took, received, sent = self._counters_of(route, answer.status)
        took.observe(seconds)
        received.inc(up)
        sent.inc(down)
        self.bytes_up += up
        self.bytes_down += down
        if isinstance(answer, ProblemAnswer):
            self._refused.labels(route, answer.problem).inc()
            if route in _ROUND_ROUTES:
                self._pending[answer.problem] += 1
        elif route == "updates" and answer.status == 200:
            self._accepted.inc()

    def _counters_of(self, route: str, status: int) -> tuple[Histogram, Counter, Counter]:
        """Kept: to find them by their labels costs more than to count."""
        known = self._found.get((route, status))
        if known is None:
            known = (
                self._requests.labels(route, str(status)),
                self._up.labels(route),
                self._down.labels(route),
            )
            self._found[route, status] = known
        return known


METRICS_TYPE = CONTENT_TYPE_LATEST


class _OfTasks(Collector):
    """The numbers of several tasks, with a label that says whose; those of the process once."""

    def __init__(self, registries: Mapping[str, CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        found: dict[str, Metric] = {}
        for task, registry in self._registries.items():
            for family in registry.collect():
                of_process = family.name == _BUILD or not family.name.startswith("fedrap_")
                if of_process:
                    found.setdefault(family.name, family)
                    continue
                known = found.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                known.samples += [
                    one._replace(labels={"task": task, **one.labels}) for one in family.samples
                ]
        return found.values()


class _Gauges(Collector):
    """Numbers that are true now: read at the moment of looking, kept nowhere."""

    def __init__(self, read: Callable[[], Gauges]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = dict(self._read())
        phase = int(found.pop("phase", 0))
        phases = GaugeMetricFamily(
            "fedrap_round_phase", "1 for the phase it is in.", labels=["phase"]
        )
        for number, name in enumerate(PHASES):
            phases.add_metric([name], float(number == phase))
        yield phases
        devices = GaugeMetricFamily("fedrap_devices", "Enrolled devices.", labels=["state"])
        for name in [name for name in found if name.startswith("devices_")]:
            devices.add_metric([name.removeprefix("devices_")], found.pop(name))
        yield devices
        for name, value in found.items():
            yield GaugeMetricFamily(f"fedrap_{name}", ABOUT[name], value=value)


ABOUT = {
    "round_step": "Step of the open round.",
    "round_assigned": "Slots given in the open round.",
    "round_accepted": "Updates kept in the open round.",
    "round_age_seconds": "How long the open round has been open.",
    "round_max_seconds": "How long a round may be open.",
    "release_version": "The latest version of C.",
    "release_step": "Rounds that were released.",
    "task_rounds": "Rounds of the whole task.",
    "database_serves": "1 while the database does, as far as was last seen.",
    "helper_serves": "0 while the helper of private aggregation does not; 1 where there is none.",
    "common_items": "Rows of C.",
    "common_zeros": "Share of C that is exactly zero.",
    "epsilon_promised": "Epsilon of a device that takes part K times; infinite without noise.",
    "epsilon_spent": "Epsilon of the device that was charged most.",
    "questions_open": "Questions about quality that are open.",
    "quality_release": "The release that devices were last asked about.",
    "quality_value": "Mean gain of devices' own lists, as they last said.",
    "quality_low": "Lower end of its 95 % interval.",
    "quality_high": "Upper end of it.",
    "quality_uplift": "The same less that of the popular list.",
    "quality_uplift_low": "Lower end of its 95 % interval.",
    "quality_uplift_lately": "The same less that of what is popular lately.",
    "quality_uplift_lately_low": "Lower end of its 95 % interval.",
    "quality_best": "The best such mean of the last 30 days, by the lower end.",
    "lists_popular": "Share of devices' first ten that is among the most popular tenth.",
    "lists_popular_low": "Lower end of its 95 % interval.",
    "lists_items": "Items, all as frequent, that would be as varied as devices' first ten are.",
    "lists_items_high": "Upper end of its 95 % interval.",
    "rollout_running": "1 while a release is rolled out.",
    "rollout_halted": "1 where the last roll-out was halted.",
    "rollout_share": "Share of the devices that a release is staged to now.",
    "rollout_lead": "Mean lead of the staged release, at the last stage that was answered.",
    "rollout_lead_low": "Lower end of its 95 % interval.",
    "rollout_lead_high": "Upper end of it.",
    "ingest_queue": "Requests of devices in hand.",
    "ingest_queue_bytes": "Their bodies.",
}
