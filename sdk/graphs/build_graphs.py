"""Writes the graphs that the ONNX trainer runs. A build tool: the SDK never imports it.

    python sdk/graphs/build_graphs.py [DIRECTORY]

Plain inference graphs of opset 13 and IR 8, so that every ONNX Runtime since 1.11 takes them. All
shapes are dynamic; the leading axis is the device, so one file serves one device or a batch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper

OPSET = 13
IR_VERSION = 8
ASSETS = Path(__file__).parent.parent / "fedrap" / "assets"


class GraphWriter:
    """Nodes in the order in which they are written; every method returns a tensor's name."""

    def __init__(self, prefix: str = "") -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._prefix = prefix

    def constant(self, name: str, value: Any) -> str:
        """A tensor that never changes."""
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """One node with one output."""
        output = name or f"{self._prefix}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def total(self, tensor: str, axes: str) -> str:
        """The sum over some axes, which stay with length 1."""
        return self.op("ReduceSum", tensor, axes, keepdims=1)

    def flip(self, tensor: str) -> str:
        """The last two of three axes exchanged."""
        return self.op("Transpose", tensor, perm=[0, 2, 1])


def tensor(name: str, kind: int, shape: list[int | str] | None = None) -> Any:
    """A named input or output; without a shape where the graph around it knows."""
    return helper.make_tensor_value_info(name, kind, shape)


def finish(writer: GraphWriter, name: str, inputs: list[Any], outputs: list[Any]) -> ModelProto:
    """The checked model."""
    graph = helper.make_graph(writer.nodes, name, inputs, outputs, writer.constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    checker.check_model(model, full_check=True)
    return model


def build_solve() -> ModelProto:
    """`solve`: x by conjugate gradients, preconditioned with G^-1, then the device's share.

    The rows come as sqrt(a_l)·C_l, with the roots beside them.
    M = G + sum_l a_l C_l C_l' is never below G, so e^2 = r'G^-1 r of a residual r bounds the
    error of x: |x - x*| <= e/sqrt(smallest eigenvalue of G), |<x - x*, C_l>| <= e/sqrt(a_l). The
    loop ends when e^2 is at most goal = precision / max(1, largest a_l) for every device of the
    batch, or after `steps`; the host looks at error <= goal.
    float64 throughout: g_j = a_j·(<x,C_j> - 1)·x loses too many digits
    in float32 once a history explains its items well.
    """
    kind = TensorProto.DOUBLE
    g = GraphWriter("s")
    g.constant("last", np.array([-1], dtype=np.int64))
    g.constant("zero", np.float64(0.0))
    g.constant("one", np.float64(1.0))
    # Keeps 0/0 of an empty device at 0. ONNX Runtime takes what a float32 can't hold for zero and
    # leaves the addition out.
    g.constant("tiny", np.float64(1e-30))
    g.constant("go", np.array(True))
    scaled_t = g.flip("scaled")  # (B, k, n)
    system = g.op("Add", g.op("MatMul", scaled_t, "scaled"), "base", name="M")
    right = g.op("MatMul", "roots", "scaled")  # (B, 1, k)
    first = g.op("MatMul", right, "inverse")
    product = g.op("Add", g.total(g.op("Mul", right, first), "last"), "tiny")
    start = g.op("Sub", right, right)
    weights = g.op("Mul", "roots", "roots")  # (B, 1, n)
    largest = g.op("Max", g.op("ReduceMax", weights, axes=[2], keepdims=1), "one")
    g.op("Div", "precision", largest, name="goal")  # (B, 1, 1)
    body = _conjugate_gradient(system)
    g.nodes.append(
        helper.make_node(
            "Loop",
            ["steps", "go", start, right, first, product],
            ["user", "r_end", "p_end", "error"],
            body=body,
        )
    )
    short = g.op("Sub", g.op("MatMul", "user", scaled_t), "roots")  # (B, 1, n)
    wrong = g.op("Mul", short, "roots")  # a·(<x,C> - 1)
    left = g.op("Sub", "tiny", g.total(wrong, "last"))  # (B, 1, 1)
    g.op("Div", left, g.op("Add", g.total(weights, "last"), "tiny"), name="loss")
    g.op("Mul", g.flip(wrong), "user", name="gradients")
    g.op("Mul", g.flip("user"), "user", name="outer")
    inputs = [
        tensor("scaled", kind, ["B", "n", "k"]),
        tensor("roots", kind, ["B", 1, "n"]),
        tensor("base", kind, ["k", "k"]),
        tensor("inverse", kind, ["k", "k"]),
        tensor("precision", kind, []),
        tensor("steps", TensorProto.INT64, []),
    ]
    outputs = [
        tensor("user", kind, ["B", 1, "k"]),
        tensor("gradients", kind, ["B", "n", "k"]),
        tensor("outer", kind, ["B", "k", "k"]),
        tensor("loss", kind, ["B", 1, 1]),
        tensor("error", kind, ["B", 1, 1]),
        tensor("goal", kind, ["B", 1, 1]),
    ]
    return finish(g, "solve", inputs, outputs)


def _conjugate_gradient(system: str) -> Any:
    """One step: x, residual r, direction p and r'G^-1 r go in and come out."""
    kind = TensorProto.DOUBLE
    b = GraphWriter("b")
    pushed = b.op("MatMul", "p", system)
    bend = b.op("Add", b.total(b.op("Mul", "p", pushed), "last"), "tiny")
    length = b.op("Div", "rz", bend)
    b.op("Add", "x_in", b.op("Mul", length, "p"), name="x_out")
    b.op("Sub", "r", b.op("Mul", length, pushed), name="r_out")
    z = b.op("MatMul", "r_out", "inverse")
    b.op("Add", b.total(b.op("Mul", "r_out", z), "last"), "tiny", name="rz_out")
    b.op("Add", z, b.op("Mul", b.op("Div", "rz_out", "rz"), "p"), name="p_out")
    worst = b.op("ReduceMax", b.op("Sub", "rz_out", "goal"), keepdims=0)
    b.op("Greater", worst, "zero", name="more_out")
    inputs = [tensor("i", TensorProto.INT64, []), tensor("more", TensorProto.BOOL, [])]
    inputs += [tensor(name, kind) for name in ("x_in", "r", "p", "rz")]
    outputs = [tensor("more_out", TensorProto.BOOL, [])]
    outputs += [tensor(name, kind) for name in ("x_out", "r_out", "p_out", "rz_out")]
    return helper.make_graph(b.nodes, "step", inputs, outputs)


STEP_SCALARS = ("user_rate", "personal_rate", "common_rate", "push", "shrink", "fade", "apart",
                "l1", "l2")  # fmt: skip
STEP_ROWS = ("own_weights", "own_liked", "other_weights", "other_liked")


def build_paper() -> ModelProto:
    """`paper`: all local steps as one Scan over (S, …) inputs; training.py has the formulas.

    float64 as well: with the paper's rates one step can move a row by many times its length, and
    ten such steps multiply the rounding of float32 beyond what the trainers may differ by.
    """
    kind = TensorProto.DOUBLE
    g = GraphWriter("s")
    g.constant("rows", np.array([1], dtype=np.int64))
    g.constant("both", np.array([1, 2], dtype=np.int64))
    g.constant("one", np.float64(1.0))
    g.constant("half", np.float64(0.5))
    g.constant("zero", np.float64(0.0))
    g.constant("tiny", np.float64(1e-30))
    states = ["user", "bias", "personal", "own", "other"]
    g.nodes.append(
        helper.make_node(
            "Scan",
            [*states, *STEP_ROWS, *STEP_SCALARS],
            [*(f"{name}_end" for name in states), "losses"],
            body=_paper_step(),
            num_scan_inputs=len(STEP_ROWS) + len(STEP_SCALARS),
        )
    )
    shapes: dict[str, list[int | str]] = {
        "user": ["B", 1, "k"],
        "bias": ["B", 1, 1],
        "personal": ["B", "P", "k"],
        "own": ["B", "P", "k"],
        "other": ["B", "N", "k"],
    }
    inputs = [tensor(name, kind, shapes[name]) for name in states]
    inputs += [
        tensor(name, kind, ["S", "B", "P" if name.startswith("own") else "N", 1])
        for name in STEP_ROWS
    ]
    inputs += [tensor(name, kind, ["S", "B", 1, 1]) for name in STEP_SCALARS]
    inputs += [tensor("reach", kind, ["B", 1, 1])]
    outputs = [
        tensor("user_end", kind, ["B", 1, "k"]),
        tensor("bias_end", kind, ["B", 1, 1]),
        tensor("personal_end", kind, ["B", "P", "k"]),
        tensor("own_end", kind, ["B", "P", "k"]),
        tensor("other_end", kind, ["B", "N", "k"]),
        tensor("losses", kind, ["S", "B", 1, 1]),
    ]
    return finish(g, "paper", inputs, outputs)


def _paper_step() -> Any:
    """One local step of every device in the batch; `i_…` are the values before it."""
    kind = TensorProto.DOUBLE
    b = GraphWriter("b")
    summed = b.op("Add", "i_personal", "i_own")  # (B, P, k)
    user_t = b.flip("i_user")  # (B, k, 1)
    z_own = b.op("Add", b.op("MatMul", summed, user_t), "i_bias")  # (B, P, 1)
    z_other = b.op("Add", b.op("MatMul", "i_other", user_t), "i_bias")  # (B, N, 1)
    g_own = b.op("Sub", b.op("Mul", "own_w", b.op("Sigmoid", z_own)), "own_l")
    g_other = b.op("Sub", b.op("Mul", "other_w", b.op("Sigmoid", z_other)), "other_l")
    d_user = b.op(
        "Add",
        b.op("MatMul", b.flip(g_own), summed),
        b.op("MatMul", b.flip(g_other), "i_other"),
    )  # (B, 1, k)
    d_bias = b.op("Add", b.total(g_own, "rows"), b.total(g_other, "rows"))  # (B, 1, 1)
    b.op("Sub", "i_user", b.op("Mul", "user_rate_", d_user), name="o_user")
    b.op("Sub", "i_bias", b.op("Mul", "user_rate_", d_bias), name="o_bias")

    apart = b.op("Sub", "i_personal", "i_own")  # (B, P, k)
    square = b.op("ReduceSumSquare", apart, axes=[2], keepdims=1)  # (B, P, 1)
    norm = b.op("Max", b.op("Sqrt", square), "tiny")
    room = b.op("Max", b.op("Sub", b.op("Div", "reach", norm), "one"), "zero")
    wanted = b.op("Mul", "push_", "own_w")
    length = b.op("Min", wanted, b.op("Mul", "half", room))  # (B, P, 1) s_j
    push = b.op("Mul", length, apart)  # (B, P, k)
    moved = b.op("Mul", b.op("Mul", "personal_rate_", g_own), "i_user")
    b.op("Sub", "i_personal", b.op("Sub", moved, push), name="o_personal")
    moved = b.op("Add", b.op("Mul", b.op("Mul", "common_rate_", g_own), "i_user"), push)
    _move(b, "own", moved)
    moved = b.op("Mul", b.op("Mul", "common_rate_", g_other), "i_user")
    _move(b, "other", moved)

    fit = b.op("Add", _entropy(b, z_own, "own"), _entropy(b, z_other, "other"))
    difference = b.op("Mul", "apart_", b.total(b.op("Mul", "own_w", square), "rows"))
    size = b.op("Add", _size(b, "own"), _size(b, "other"))
    b.op("Add", b.op("Sub", fit, difference), size, name="o_loss")

    names = ["user", "bias", "personal", "own", "other"]
    scanned = ["own_w", "own_l", "other_w", "other_l", *(f"{name}_" for name in STEP_SCALARS)]
    return helper.make_graph(
        b.nodes,
        "step",
        [tensor(name, kind) for name in [*(f"i_{name}" for name in names), *scanned]],
        [tensor(f"o_{name}", kind) for name in [*names, "loss"]],
    )


def _move(b: GraphWriter, block: str, step: str) -> None:
    """C after a step down and a shrinking; of S_theta and L2's division one does nothing."""
    weights = f"{block}_w"
    rows = b.op("Sub", f"i_{block}", step)
    level = b.op("Mul", "shrink_", weights)
    inside = b.op("Max", b.op("Min", rows, level), b.op("Neg", level))
    kept = b.op("Div", "one", b.op("Add", b.op("Mul", "fade_", weights), "one"))
    b.op("Mul", b.op("Sub", rows, inside), kept, name=f"o_{block}")


def _entropy(b: GraphWriter, z: str, block: str) -> str:
    """sum_j w_j·log(1 + e^z_j) - l_j·z_j: (B, 1, 1)."""
    # Softplus has no float64 kernel; this form never overflows.
    rest = b.op("Log", b.op("Add", b.op("Exp", b.op("Neg", b.op("Abs", z))), "one"))
    up = b.op("Mul", f"{block}_w", b.op("Add", b.op("Max", z, "zero"), rest))
    return b.total(b.op("Sub", up, b.op("Mul", f"{block}_l", z)), "rows")


def _size(b: GraphWriter, block: str) -> str:
    """mu·sum_j w_j·|C_j|_1 / k, or the squares: (B, 1, 1)."""
    weights = f"{block}_w"
    absolute = b.op("MatMul", b.flip(weights), b.op("Abs", f"i_{block}"))  # (B, 1, k)
    l1 = b.op("Mul", "l1_", b.total(absolute, "both"))
    squares = b.op("ReduceSumSquare", f"i_{block}", axes=[2], keepdims=1)  # (B, n, 1)
    l2 = b.op("Mul", "l2_", b.total(b.op("Mul", weights, squares), "rows"))
    return b.op("Add", l1, l2)


GROUP = 64  # as in fedrap_core.sequence.device_share


def build_sequence() -> ModelProto:
    """The sequence part: a softmax over a block of items, before blocks are put together.

    float32: scores of a softmax are of the size of ten, and all that is added up is positive. The
    int8 rows come as a release has them, so that nobody keeps them a second time as floats.
    """
    kind = TensorProto.FLOAT
    g = GraphWriter("s")
    g.constant("grouped", np.array([0, -1, GROUP], dtype=np.int64))
    g.constant("last", np.array([2], dtype=np.int64))
    rows = g.op("Cast", "values", to=kind)  # (B, k)
    products = g.op("MatMul", "queries", g.op("Transpose", rows, perm=[1, 0]))  # (T, B)
    scores = g.op("Add", g.op("Mul", products, "scales"), "bias")
    g.op("ReduceMax", scores, axes=[1], keepdims=1, name="peak")  # (T, 1)
    chances = g.op("Exp", g.op("Sub", scores, "peak"))
    parts = g.op("Reshape", chances, "grouped")  # (T, B/GROUP, GROUP)
    g.op("ReduceSum", parts, "last", keepdims=0, name="groups")
    g.op("MatMul", g.op("Mul", chances, "scales"), rows, name="pulled")  # (T, k)
    inputs = [
        tensor("queries", kind, ["T", "k"]),
        tensor("values", TensorProto.INT8, ["B", "k"]),
        tensor("scales", kind, ["B"]),
        tensor("bias", kind, ["B"]),
    ]
    outputs = [
        tensor("peak", kind, ["T", 1]),
        tensor("groups", kind, ["T", "G"]),
        tensor("pulled", kind, ["T", "k"]),
    ]
    return finish(g, "sequence", inputs, outputs)


GRAPHS = {
    "solve_v1.onnx": build_solve,
    "paper_v1.onnx": build_paper,
    "sequence_v1.onnx": build_sequence,
}


def main(argv: list[str] | None = None) -> int:
    """Write every graph into a directory."""
    arguments = sys.argv[1:] if argv is None else argv
    directory = Path(arguments[0]) if arguments else ASSETS
    for name, build in GRAPHS.items():
        raw = build().SerializeToString(deterministic=True)
        (directory / name).write_bytes(raw)
        sys.stderr.write(f"{name}: {len(raw)} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
