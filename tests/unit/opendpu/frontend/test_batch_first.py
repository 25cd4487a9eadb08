# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers whose batch comes first, against the same with the sequence first."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.api import compile_onnx
from opendpu.frontend import load_onnx
from opendpu.frontend.batch_first import sequence_first
from opendpu.ops.session import Session

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, FEATURES, HIDDEN, BATCH = 5, 4, 3, 2


def layer(kind, rng, *, layout, directions, states, outputs):
    """Return a model of one layer; inputs are the sequence and, with ``states``, its states."""
    gates = GATES[kind] * HIDDEN
    weights = {
        "w": rng.standard_normal((directions, gates, FEATURES)),
        "r": rng.standard_normal((directions, gates, HIDDEN)),
    }
    shapes = {"x": (STEPS, BATCH, FEATURES)}
    names = ["x", "w", "r"]
    if states:
        shapes |= {f"s{i}": (directions, BATCH, HIDDEN) for i in range(1 + (kind == "LSTM"))}
        names += ["", "", *list(shapes)[1:]]
    if layout:
        shapes = {name: (shape[1], shape[0], shape[2]) for name, shape in shapes.items()}
    attributes = {"direction": "bidirectional"} if directions == 2 else {}
    made = helper.make_node(kind, names, outputs, hidden_size=HIDDEN, layout=layout, **attributes)
    graph = helper.make_graph(
        [made], "layer",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs if n],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    return model, shapes


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize(
    ("directions", "states", "outputs"),
    [(1, False, ["y"]), (2, True, ["y", "h"]), (1, True, ["", "h"])],
)
def test_results_are_those_with_the_sequence_first(kind, directions, states, outputs, rng):
    seed = int(rng.integers(1 << 30))
    models = [
        layer(kind, np.random.default_rng(seed), layout=layout, directions=directions,
              states=states, outputs=outputs)
        for layout in (0, 1)
    ]  # fmt: skip
    (plain, shapes), (turned, _) = models
    feeds = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    names = [name for name in outputs if name]
    session = onnxruntime.InferenceSession(plain.SerializeToString())
    wanted = dict(zip(names, session.run(names, feeds), strict=True))
    found = Session(load_onnx(turned)).run({n: a.swapaxes(0, 1) for n, a in feeds.items()})
    for name in names:
        axes = (2, 0, 1, 3) if name == "y" else (1, 0, 2)
        np.testing.assert_allclose(found[name], wanted[name].transpose(axes), rtol=1e-4, atol=1e-5)


def test_a_model_without_such_layers_is_itself(rng):
    plain, _ = layer("GRU", rng, layout=0, directions=1, states=False, outputs=["y"])
    assert sequence_first(plain) is plain
    turned, _ = layer("GRU", rng, layout=1, directions=1, states=False, outputs=["y"])
    before = turned.SerializeToString()
    assert sequence_first(turned) is not turned
    assert turned.SerializeToString() == before


def test_inside_of_a_branch(rng):
    turned, shapes = layer("RNN", rng, layout=1, directions=1, states=False, outputs=["y"])
    (inner,) = turned.graph.node
    branches = {
        f"{name}_branch": helper.make_graph(
            [inner], name, [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        )
        for name in ("then", "else")
    }
    graph = helper.make_graph(
        [helper.make_node("If", ["yes"], ["z"], **branches)], "branched",
        [*turned.graph.input, helper.make_tensor_value_info("yes", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)], turned.graph.initializer,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    feeds = {"x": rng.standard_normal(shapes["x"]).astype(np.float32)}
    wanted = Session(load_onnx(turned)).run(feeds)["y"]
    graph = load_onnx(model)
    found = Session(graph).run({**feeds, "yes": np.ones(graph["yes"].shape, bool)})
    np.testing.assert_allclose(found["z"], wanted, rtol=1e-5)


def test_a_network_with_one_compiles(rng, tmp_path):
    model, _ = layer("LSTM", rng, layout=1, directions=1, states=False, outputs=["y"])
    model.graph.node.insert(0, helper.make_node("MatMul", ["in", "m"], ["x"]))
    model.graph.initializer.append(
        numpy_helper.from_array(rng.standard_normal((8, FEATURES)).astype(np.float32), "m")
    )
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("in", 1, [1, STEPS, 8]))
    onnx.save(model, tmp_path / "m.onnx")
    samples = {"in": rng.standard_normal((3, STEPS, 8)).astype(np.float32)}
    report = compile_onnx(
        tmp_path / "m.onnx", calibration=samples, target="B512", output=tmp_path / "m.xmodel"
    )
    assert report.subgraphs
