# SPDX-License-Identifier: Apache-2.0
"""OnBoard with models of TensorFlow: TensorBoard's own reader finds their graphs and the DPU."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")
pytest.importorskip("tensorboard", reason="TensorBoard is not installed (opendpu[tensorboard])")

from tensorboard.backend.event_processing.event_accumulator import (  # noqa: E402
    EventAccumulator,
)

import vitis_vai  # noqa: E402
from OnBoard import SummaryCollector  # noqa: E402
from opendpu_arch.errors import TensorError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def reader(folder):
    found = EventAccumulator(folder)
    found.Reload()
    return found


def test_functions_of_wego(model, images):
    wego = vitis_vai.create_wego_model(vitis_vai.quantize(model, calib_dataset=images))
    with SummaryCollector("wego") as collector:
        collector.add_graph(wego, input_to_model=tf.constant(images[:3]), verbose=False)
        collector.add_platform_info()
        collector.add_image("photo", tf.zeros((8, 6, 3)), dataformats="HWC")
    found = reader("wego")
    nodes = {node.name: node for node in found.Graph().node}
    assert "VaiWeGOOp" in nodes
    assert any(node.device == "/device:DPU:0" for node in nodes.values())
    seconds = [tag for tag in found.Tags()["scalars"] if tag.startswith("network_0/seconds/")]
    assert len(found.Scalars(seconds[0])) == 3, "a job for each sample"
    assert found.Images("photo")[0].width == 6
    text = found.Tensors("platform/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "TensorFlow" in text


@pytest.mark.parametrize("form", ["keras", "function", "graph"])
def test_models_that_are_not_compiled(model, form, images):
    network, given = model, None
    function = tf.function(lambda x: tf.nn.relu(network(x)))
    if form == "function":
        model, given = function, tf.constant(images[:1])
    elif form == "graph":
        spec = tf.TensorSpec((None, *images.shape[1:]))
        model = function.get_concrete_function(spec).graph.as_graph_def()
    with SummaryCollector("float") as collector:
        collector.add_graph(model, input_to_model=given)
    kinds = {node.op for node in reader("float").Graph().node}
    inner = {"PartitionedCall", "StatefulPartitionedCall"}  # Keras calls functions of its own
    assert "Conv2D" in kinds or kinds & inner


def test_what_is_no_model():
    with SummaryCollector("none") as collector, pytest.raises(TensorError, match="no model of"):
        collector.add_graph(np.zeros(3))
