"""The graphs that are shipped are those that the builder writes, for every runtime in use."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from fedrap.trainers.onnx_trainer import ASSETS

onnx = pytest.importorskip("onnx", reason="onnx is a build tool; the graphs are shipped")
BUILDER = Path(__file__).parents[3] / "sdk" / "graphs" / "build_graphs.py"


@pytest.fixture(scope="module")
def builder() -> dict[str, Any]:
    return runpy.run_path(str(BUILDER))


def test_the_builder_reproduces_the_shipped_bytes(builder: dict[str, Any], tmp_path: Path) -> None:
    assert builder["main"]([str(tmp_path)]) == 0
    shipped = {path.name: path.read_bytes() for path in ASSETS.glob("*.onnx")}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == shipped


@pytest.mark.parametrize("graph", ["solve_v1.onnx", "paper_v1.onnx", "sequence_v1.onnx"])
def test_a_graph_needs_no_new_runtime_and_fixes_no_size(graph: str) -> None:
    model = onnx.load(str(ASSETS / graph))
    assert model.ir_version == 8
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 13)]
    for value in model.graph.input:
        sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        assert all(size in (0, 1) for size in sizes), value.name
    assert not [node for node in model.graph.node if node.domain]
