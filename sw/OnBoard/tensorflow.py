# SPDX-License-Identifier: Apache-2.0
"""Models of TensorFlow for TensorBoard: functions of WeGO, and any other."""

from typing import Any

from tensorboard.compat.proto.graph_pb2 import GraphDef

from OnBoard.graph import Compiled
from opendpu.frontend.tensorflow.runtime import tf
from opendpu_arch.errors import TensorError


def compiled_networks(graph: GraphDef, model: Any, inputs: Any) -> list[Compiled]:
    """Return the compiled networks of a model; what TensorFlow does around them is added.

    Parameters
    ----------
    graph
        Is changed.
    model
        What :func:`vitis_vai.create_wego_model` returns, a Keras model, a function of TensorFlow,
        a graph or a GraphDef.
    inputs
        A tensor or a tuple of tensors that the model is called with; none to call nothing.

    Raises
    ------
    TensorError
        The model is none of these.
    """
    given = () if inputs is None else inputs if isinstance(inputs, tuple) else (inputs,)
    if given:
        model(*given)
    graph.MergeFrom(GraphDef.FromString(_graph_def(model, given).SerializeToString()))
    network = getattr(model, "wego_network", None)
    if network is None:
        return []
    running, report = network.running, network.report.as_dict()
    return [Compiled(running.graph, report, list(running.statistics), list(running.seconds))]


def _graph_def(model: Any, given: tuple[Any, ...]) -> Any:
    if isinstance(model, tf.compat.v1.GraphDef):
        return model
    if isinstance(model, tf.Graph):
        return model.as_graph_def()
    if hasattr(model, "graph"):  # a concrete function
        return model.graph.as_graph_def()
    if isinstance(model, tf.keras.Model) and not given:
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype, name=tensor.name.partition(":")[0])
                 for tensor in model.inputs]  # fmt: skip
        single = len(specs) == 1
        made = tf.function(lambda *x: model(x[0] if single else list(x), training=False))
        return made.get_concrete_function(*specs).graph.as_graph_def()
    if callable(model):
        try:
            return tf.function(model).get_concrete_function(*given).graph.as_graph_def()
        except Exception as error:  # whatever TensorFlow and the model happen to raise
            raise TensorError(f"{type(model).__name__} cannot be traced: {error}") from error
    raise TensorError(f"{type(model).__name__} is no model of TensorFlow")
