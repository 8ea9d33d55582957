"""Traces, where they are asked for: what is in them, and what never is."""

from __future__ import annotations

import asyncio
import gzip
import sys
from pathlib import Path

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fedrap_coordinator import tracing
from fedrap_coordinator.app import create_app
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.sql import SqlStore
from testkit.harness import one_cell, serve_app, small_settings


async def test_requests_transactions_and_releases_have_spans_without_any_device(
    tmp_path: Path,
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = tracing.OpenTelemetryTraces(provider.get_tracer("test"), SYSTEM.clock)
    store = SqlStore(
        f"sqlite:///{tmp_path}/c.sqlite", reached=traces.reached, observed=traces.database
    )
    app = create_app(
        small_settings(updates=1, separation=1), store, fresh_keyring(), reached=traces.reached,
        traces=traces,
    )  # fmt: skip
    async with serve_app(app) as served:
        player = await served.player()
        await player.join(one_cell(0))
        await served.app[COORDINATOR].advance()
        await player.ask(99)
    spans = exporter.get_finished_spans()
    names = {span.name for span in spans}
    assert {"offers", "updates", "database write", "database read", "release"} <= names
    (release,) = [span for span in spans if span.name == "release"]
    assert [event.name for event in release.events] == ["summed", "learnt", "step claimed"]
    asked = [dict(span.attributes or {}) for span in spans if span.name == "offers"]
    assert asked[-1] == {
        "http.route": "offers", "http.response.status_code": 409, "fedrap.problem": "stale-model",
    }  # fmt: skip
    said = repr([(span.name, span.attributes, span.events) for span in spans])
    assert player.id.hex() not in said
    assert "127.0.0.1" not in said


async def test_spans_arrive_over_otlp_where_the_variable_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came: list[ExportTraceServiceRequest] = []

    async def receive(request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        came.append(ExportTraceServiceRequest.FromString(body))
        return web.Response(body=b"", content_type="application/x-protobuf")

    collector = web.Application()
    collector.router.add_post("/v1/traces", receive)
    runner = web.AppRunner(collector)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setenv(tracing.ENDPOINT, address)  # the exporter reads it by itself
    traces = tracing.open_traces({tracing.ENDPOINT: address}, "1.2", SYSTEM.clock)
    assert isinstance(traces, tracing.OpenTelemetryTraces)
    app = create_app(
        small_settings(updates=1), MemoryStore(), fresh_keyring(), reached=traces.reached,
        traces=traces,
    )  # fmt: skip
    async with serve_app(app) as served:
        await (await served.player()).offer()
    await asyncio.to_thread(traces.close)
    await runner.cleanup()
    (about,) = {
        (one.key, one.value.string_value)
        for message in came
        for resource in message.resource_spans
        for one in resource.resource.attributes
        if one.key == "service.version"
    }
    assert about[1] == "1.2"
    names = {
        span.name
        for message in came
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    assert {"enrol", "offers"} <= names


def test_without_the_variable_there_are_none_and_without_the_extra_a_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert tracing.open_traces({}, "1", SYSTEM.clock) is tracing.NO_TRACES
    for name in [one for one in sys.modules if one.startswith("opentelemetry.exporter")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    with pytest.raises(ConfigError, match=r"fedrap-coordinator\[tracing\]"):
        tracing.open_traces({tracing.ENDPOINT: "http://127.0.0.1:4318"}, "1", SYSTEM.clock)
