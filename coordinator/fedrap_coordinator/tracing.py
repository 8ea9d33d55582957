"""OpenTelemetry traces, where they are asked for: requests, transactions and releases.

An extra: `pip install 'fedrap-coordinator[tracing]'`, and OTEL_EXPORTER_OTLP_ENDPOINT says where
they go, as everywhere with OpenTelemetry. A span has a route, a status and a problem code; no span
has a device, an address, a key or a number of an update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.sources import Clock

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_BEGIN, _END = "summing", "add_release: committed"  # fault points: a release is made in between
_STEPS = ("summed", "learnt", "step claimed")


class Span(Protocol):
    """What is told of one thing that was done."""

    def set(self, name: str, value: str | int) -> None:
        """One attribute."""


class Traces(Protocol):
    """Where spans go."""

    def request(self) -> Any:
        """A context for one request, that gives its `Span`."""

    def database(self, kind: str, seconds: float) -> None:
        """A transaction that took so long just ended."""

    def reached(self, point: str) -> None:
        """A fault point was passed; those of a release are its steps."""

    def close(self) -> None:
        """Send what was not sent yet."""


class _Nothing:
    def set(self, name: str, value: str | int) -> None:
        pass


class NoTraces:
    """Nobody asked for any."""

    @contextmanager
    def request(self) -> Iterator[Span]:
        yield _Nothing()

    def database(self, kind: str, seconds: float) -> None:
        pass

    def reached(self, point: str) -> None:
        pass

    def close(self) -> None:
        pass


NO_TRACES = NoTraces()


class OpenTelemetryTraces:
    """Spans of an OpenTelemetry tracer. `clock` gives seconds since 1970, as its own does."""

    def __init__(self, tracer: Any, clock: Clock, close: Callable[[], None] = lambda: None) -> None:
        self._tracer = tracer
        self._clock = clock
        self.close = close
        self._release: Any = None

    @contextmanager
    def request(self) -> Iterator[Span]:
        with self._tracer.start_as_current_span("request") as span:
            yield _RequestSpan(span)

    def database(self, kind: str, seconds: float) -> None:
        end = int(self._clock() * 1e9)
        begun = end - int(seconds * 1e9)
        self._tracer.start_span(f"database {kind}", start_time=begun).end(end)

    def reached(self, point: str) -> None:
        if point == _BEGIN:
            self._release = self._tracer.start_span("release")
        elif self._release is not None and point in _STEPS:
            self._release.add_event(point)
        elif self._release is not None and point == _END:
            self._release.end()
            self._release = None


class _RequestSpan:
    def __init__(self, span: Any) -> None:
        self._span = span

    def set(self, name: str, value: str | int) -> None:
        self._span.set_attribute(name, value)
        if name == "http.route":
            self._span.update_name(str(value))


def open_traces(environment: Mapping[str, str], version: str, clock: Clock) -> Traces:
    """Traces to where the environment says; none where it says nothing.

    Raises:
        ConfigError: they are asked for, and the extra is not installed.
    """
    if not environment.get(ENDPOINT):
        return NO_TRACES
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            f"{ENDPOINT} asks for traces: pip install 'fedrap-coordinator[tracing]', or unset it"
        ) from error
    about = {"service.name": "fedrap-coordinator", "service.version": version}
    provider = TracerProvider(resource=Resource.create(about))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OpenTelemetryTraces(provider.get_tracer("fedrap"), clock, provider.shutdown)
