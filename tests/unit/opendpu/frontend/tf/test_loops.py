# SPDX-License-Identifier: Apache-2.0
"""Loops of TensorFlow, and Keras' recurrent layers: they compute what TensorFlow computes."""

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from tensorflow.python.framework import convert_to_constants
from tf_graphs import agree, computed, load_function, tf

from opendpu.frontend.tensorflow.graph_file import parse
from opendpu.frontend.tensorflow.importer import load_nodes
from opendpu.frontend.tensorflow.keras_model import load_keras
from opendpu.frontend.tflite import load_tflite
from opendpu_arch.errors import ModelFormatError, UnsupportedError

layers = tf.keras.layers
v1 = tf.compat.v1
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

RECURRENT = {
    "lstm": lambda x: layers.LSTM(6)(x),
    "sequences": lambda x: layers.LSTM(6, return_sequences=True, go_backwards=True)(x),
    "states": lambda x: layers.Concatenate()(layers.GRU(5, return_state=True)(x)),
    "gru": lambda x: layers.GRU(6, reset_after=False, return_sequences=True)(x),
    "simple": lambda x: layers.SimpleRNN(6)(x),
    "both ways": lambda x: layers.Bidirectional(layers.LSTM(5, return_sequences=True))(x),
    "stacked": lambda x: layers.GRU(4)(layers.LSTM(6, return_sequences=True)(x)),
    "initial state": lambda x: layers.GRU(8)(x, initial_state=layers.GlobalMaxPooling1D()(x)),
    "images": lambda x: layers.ConvLSTM2D(3, (3, 2))(layers.Reshape((7, 4, 2, 1))(x)),
    "steps": lambda x: layers.TimeDistributed(layers.Dense(3))(x),
}  # fmt: skip


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name, rng):
    x = layers.Input((7, 8), name="x")
    model = tf.keras.Model(x, layers.Dense(3, name="y")(layers.Flatten()(RECURRENT[name](x))))
    graph = load_keras(model, {"x": [1, 7, 8]})
    given = rng.standard_normal((1, 7, 8)).astype(np.float32)
    (found,) = computed(graph, [given])
    np.testing.assert_allclose(found, model(given).numpy(), rtol=0, atol=1e-5)


def test_recurrent_layers_in_tflite_files(rng, tmp_path):
    """TensorFlow's converter makes a WHILE of a layer, whose list is sliced and joined again."""
    x = layers.Input((7, 8), name="x")
    model = tf.keras.Model(x, layers.GRU(6, return_sequences=True, name="y")(x))
    function = tf.function(lambda x: model(x, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec([1, 7, 8], tf.float32))
    constant = convert_to_constants.convert_variables_to_constants_v2(
        concrete, lower_control_flow=False
    )
    path = tmp_path / "net.tflite"
    path.write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([constant]).convert())
    given = rng.standard_normal((1, 7, 8)).astype(np.float32)
    (found,) = computed(load_tflite(path), [given])
    np.testing.assert_allclose(found, model(given).numpy(), rtol=0, atol=1e-5)


def repeated(x):
    """Two states, one of which grows by the other; the number of rounds depends on the data."""
    return tf.while_loop(
        lambda i, y: tf.reduce_max(y) < 50.0, lambda i, y: (i + 1.0, y * 1.5 + i), (0.0, tf.abs(x))
    )


def nested(x):
    def row(i, y):
        _, grown = tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z + x), (0, y))
        return i + 1, grown * 0.5

    return tf.while_loop(lambda i, y: i < 4, row, (0, x))[1]


LOOPS = {
    "repeated": repeated,
    "nested": nested,
    "map": lambda x: tf.map_fn(lambda row: tf.reduce_sum(tf.abs(row), 0), x),
    "scan": lambda x: tf.scan(lambda held, row: held * 0.5 + row, x),
    "fold": lambda x: tf.foldl(lambda held, row: tf.tanh(held + row), x),
    "never": lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) > 1e9, lambda y: (y * 2,), (x,))[0],
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name, rng):
    agree(LOOPS[name], [rng.standard_normal((5, 4)).astype(np.float32)])


def graph_of_tensorflow_1(build, shape):
    """Return the nodes of a graph with the operators of TensorFlow 1, and what it computes."""
    graph = tf.Graph()
    v2 = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with graph.as_default():
            x = v1.placeholder(tf.float32, shape, name="x")
            result = tf.identity(build(x), name="y")
    finally:
        if v2:
            v1.enable_control_flow_v2()

    def run(array):
        with v1.Session(graph=graph) as session:
            return session.run(result, {x: array})

    return parse(graph.as_graph_def().SerializeToString(), "net"), run


def unrolled(x):
    """What ``dynamic_rnn`` makes: steps read from a list, and results written to another."""
    rows = tf.TensorArray(tf.float32, 6).unstack(x)
    made = tf.TensorArray(tf.float32, rows.size(), element_shape=[4])
    weights = tf.constant(np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32))

    def step(i, held, made):
        held = tf.tanh(tf.linalg.matvec(weights, held) + rows.read(i))
        return i + 1, held, made.write(i, held)

    first = (0, tf.zeros([4]), made)
    return tf.while_loop(lambda i, held, made: i < 6, step, first)[2].stack()


def test_loops_of_tensorflow_1(rng):
    nodes, run = graph_of_tensorflow_1(unrolled, [6, 4])
    assert {"Enter", "TensorArrayWriteV3", "TensorArrayScatterV3"} <= {n.op for n in nodes.values()}
    given = rng.standard_normal((6, 4)).astype(np.float32)
    graph = load_nodes(nodes, "net", "net", outputs={"y": "y"})
    (found,) = computed(graph, [given])
    np.testing.assert_allclose(found, run(given), rtol=0, atol=1e-5)


def chosen(x):
    """Sides with results that the data chooses between, one of which has a branch of its own."""

    def more(y):
        return tf.cond(tf.reduce_max(y) > 2.0, lambda: y * 2.0, lambda: y - 1.0)

    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: (more(x), x), lambda: (tf.nn.relu(x), -x))


UNLOWERED = {name: build for name, build in LOOPS.items() if name != "map"} | {"chosen": chosen}
"""Without what writes scalars to a list, whose shape only TensorFlow's own lowering says."""


@pytest.mark.parametrize("name", UNLOWERED)
@pytest.mark.parametrize("sign", [1, -1])
def test_while_and_if_that_were_not_lowered(name, sign, rng):
    """A GraphDef with functions for conditions, bodies and sides."""
    build = UNLOWERED[name]
    concrete = tf.function(build).get_concrete_function(tf.TensorSpec([5, 4], tf.float32))
    constant = convert_to_constants.convert_variables_to_constants_v2(
        concrete, lower_control_flow=False
    )
    definition = constant.graph.as_graph_def()
    assert {"While", "StatelessWhile", "If", "StatelessIf"} & {n.op for n in definition.node}
    nodes = parse(definition.SerializeToString(), "net")
    results = {f"y{n}": tensor.name.removesuffix(":0") for n, tensor in enumerate(constant.outputs)}
    graph = load_nodes(nodes, "net", "net", outputs=results)
    given = sign * np.abs(rng.standard_normal((5, 4)).astype(np.float32))
    expected = tf.nest.flatten(build(tf.constant(given)))
    for want, found in zip(expected, computed(graph, [given]), strict=True):
        np.testing.assert_allclose(found.reshape(want.shape), want.numpy(), rtol=1e-5, atol=1e-4)


def test_what_is_in_loops_is_named_once():
    def odd(x):
        return tf.map_fn(lambda row: tf.linalg.inv(tf.reshape(row, [2, 2])), x)

    with pytest.raises(UnsupportedError) as caught:
        load_function(odd, [(5, 4)])
    message = str(caught.value)
    assert message.startswith("function has an operator that cannot be converted:\n  MatrixInverse")
    assert message.count("MatrixInverse") == 2  # operator and name of the node


def test_states_that_grow_are_refused():
    def grows(x):
        more = tf.while_loop(
            lambda y: tf.shape(y)[0] < 20, lambda y: (tf.concat([y, y], 0),), (x,),
            shape_invariants=(tf.TensorShape([None, 4]),),
        )  # fmt: skip
        return more[0]

    with pytest.raises(UnsupportedError, match=r"state of shape \[5, 4\] becomes one of \[10, 4\]"):
        load_function(grows, [(5, 4)])


def test_incomplete_loops_are_refused():
    nodes, _ = graph_of_tensorflow_1(unrolled, [6, 4])
    (gate,) = [name for name, node in nodes.items() if node.op == "LoopCond"]
    del nodes[gate]
    with pytest.raises(ModelFormatError, match=r"^net: the nodes of loop '.*' are incomplete"):
        load_nodes(nodes, "net", "net", outputs={"y": "y"})
