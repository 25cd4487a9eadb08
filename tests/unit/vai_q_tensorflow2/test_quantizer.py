# SPDX-License-Identifier: Apache-2.0
"""The guide's snippets for ``VitisQuantizer`` and ``VitisInspector``, and what they refuse."""

import json
from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from opendpu import api  # noqa: E402
from opendpu.export.reference import IntegerReference  # noqa: E402
from opendpu.frontend import load_model  # noqa: E402
from opendpu.frontend.tensorflow import keras_model  # noqa: E402
from opendpu.quantize import complete, quantize_with_report  # noqa: E402
from opendpu_arch.errors import DPUError  # noqa: E402
from tensorflow_model_optimization.quantization.keras import (  # noqa: E402
    vitis_inspect,
    vitis_quantize,
)
from vai_q_tensorflow2.network import network_of  # noqa: E402

keras = tf.keras
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def refused(code, call, *args, **kwargs):
    with pytest.raises(DPUError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code
    return caught.value.message


def test_quantize_evaluate_save_load_compile(model, images, monkeypatch):
    model.save("float_model.h5")
    loaded = tf.keras.models.load_model("float_model.h5", compile=False)
    quantizer = vitis_quantize.VitisQuantizer(loaded)
    quantized_model = quantizer.quantize_model(calib_dataset=images, calib_batch_size=10)
    assert quantizer.report.samples == 40
    found = quantized_model(images[:5]).numpy()
    assert np.abs(found - model(images[:5]).numpy()).max() < 0.05
    assert len(np.unique(found)) > 5
    quantized_model.save("quantized_model.h5")
    with vitis_quantize.quantize_scope():
        again = keras.models.load_model("quantized_model.h5")
    np.testing.assert_array_equal(again.predict(images[:5], verbose=0), found)
    again.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(),
        metrics=[keras.metrics.SparseTopKCategoricalAccuracy(k=1)],
    )
    _, accuracy = again.evaluate(images, model(images).numpy().argmax(-1), verbose=0)
    assert accuracy > 0.8
    quantized_model.save("quantized_model.keras")
    monkeypatch.setattr(keras_model, "read_keras", None)  # a new process knows no such layer
    kinds = [[n.kind for n in load_model(f"quantized_model.{end}")] for end in ("h5", "keras")]
    assert kinds[0] == kinds[1]
    assert "fix" in kinds[0]
    report = api.compile_onnx("quantized_model.h5", target="B512", output="net.xmodel")
    assert [part.device for part in report.subgraphs if part.device != "USER"] == ["DPU", "CPU"]
    with api.create_runner("net.xmodel", device="ref") as runner:
        (outputs, _) = api.run_batch(runner, {"image": images[:5]}, floats=True)
    np.testing.assert_allclose(outputs["probs"].reshape(5, 4), found, atol=1e-6)


def test_it_is_the_one_engine(model, images):
    made = vitis_quantize.VitisQuantizer(model).quantize_model(
        calib_dataset=images, convert_sigmoid_to_hard_sigmoid=False,
        input_method=1, weight_round_mode=1, bias_round_mode=1,
    )  # fmt: skip
    model.save("float_model.keras")
    wanted = quantize_with_report(load_model(Path("float_model.keras")), {"image": images}).graph
    found = network_of(made).graph
    points = [
        sorted(node.fix_point for node in graph if node.kind == "fix")
        for graph in (found, complete(wanted))
    ]
    assert points[0] == points[1]


@pytest.mark.parametrize("kind", ["dataset", "pairs", "sequence", "generator", "list"])
def test_forms_of_data(kind, model, images):
    batches = [images[:20], images[20:]]

    class Sequence(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return batches[index], np.zeros(20)

    data = {
        "dataset": tf.data.Dataset.from_tensor_slices(images).batch(20),
        "pairs": tf.data.Dataset.from_tensor_slices((images, np.zeros(40))).batch(20),
        "sequence": Sequence(), "generator": (batch for batch in batches), "list": batches,
    }[kind]  # fmt: skip
    quantizer = vitis_quantize.VitisQuantizer(model)
    quantizer.quantize_model(calib_dataset=data, calib_steps=1 if kind == "dataset" else None)
    assert quantizer.report.samples == (20 if kind == "dataset" else 40)


def test_golden_results(model, images):
    made = vitis_quantize.VitisQuantizer(model).quantize_model(calib_dataset=images)
    vitis_quantize.VitisQuantizer.dump_model(model=made, dataset=images[:2], output_dir="dump")
    weights = [path.name for path in Path("dump/dump_results_weights").glob("*_kernel.bin")]
    assert len(weights) == 3
    assert any(name.startswith("quant_conv1") for name in weights)
    graph = network_of(made).graph
    (fix,) = [n for n in graph if n.kind == "fix" and graph[n.sources()[0]].kind == "data"]
    results = IntegerReference(graph).run({"image": images[1:2]})
    stored = np.fromfile("dump/dump_results_1/quant_image.bin", np.int8)
    np.testing.assert_array_equal(stored, np.asarray(results[fix.name]).ravel())
    assert (
        refused("QUANTIZER_TF2_UNSUPPORTED_MODEL", vitis_quantize.VitisQuantizer.dump_model, model)
        == "model 'net' is not quantized: VitisQuantizer.quantize_model makes one"
    )


def test_strategies(model, images):
    quantizer = vitis_quantize.VitisQuantizer(model)
    quantizer.dump_quantize_strategy(dump_file="my_quantize_strategy.json", verbose=0)
    strategy = json.loads(Path("my_quantize_strategy.json").read_text())
    assert strategy["quantize_registry_config"]["weight_bit"] == 8
    strategy["quantize_registry_config"]["weight_bit"] = 4
    Path("my_quantize_strategy.json").write_text(json.dumps(strategy))
    quantizer.set_quantize_strategy(new_quantize_strategy="my_quantize_strategy.json")
    quantizer.quantize_model(images)
    bits = {tensor.role: tensor.bits for tensor in quantizer.report.tensors}
    assert bits["weights"] == 4
    assert bits["activation"] == 8
    with pytest.raises(DPUError, match="'weight_bits' is no setting of a quantize strategy"):
        quantizer.quantize_model(images, weight_bits=8)
    with pytest.raises(DPUError, match="quantize_strategy 'gpu' is unknown; choose one of pof2s"):
        vitis_quantize.VitisQuantizer(model, quantize_strategy="gpu")


@pytest.mark.parametrize("name", ["fs", "fsx"])
def test_any_scales(name, model, images):
    quantizer = vitis_quantize.VitisQuantizer(model, quantize_strategy=name)
    made = quantizer.quantize_model(calib_dataset=images)
    roles = {tensor.role for tensor in quantizer.report.tensors}
    assert ("activation" in roles) == (name == "fsx")
    assert quantizer.report.obstacles
    assert np.abs(made(images[:3]).numpy() - model(images[:3]).numpy()).max() < 0.05


def test_parts_of_a_model(model, images):
    quantizer = vitis_quantize.VitisQuantizer(model)
    quantizer.quantize_model(images, ignore_layers=["conv2"], output_layers=["mean"])
    weights = {t.layer.split("/")[0] for t in quantizer.report.tensors if t.role == "weights"}
    assert weights == {"conv1"}
    assert {"conv2/Relu", "probs"} <= set(quantizer.report.floating)
    with pytest.raises(DPUError, match="input_layers has 'conv9', but the model has no such layer"):
        quantizer.quantize_model(images, input_layers=["conv9"])


def test_files_of_other_forms(model, images):
    quantizer = vitis_quantize.VitisQuantizer(model)
    for form, name in (("onnx", "quantized_model.onnx"), ("h5", "quantized_model.h5")):
        quantizer.quantize_model(calib_dataset=images, output_format=form, output_dir="./results")
        assert Path("results", name).exists()
    with pytest.raises(DPUError, match="output_format is 'tf', but must be"):
        quantizer.quantize_model(calib_dataset=images, output_format="tf")


def test_free_sizes(images):
    x = keras.Input((None, None, 3), name="image")
    free = keras.Model(x, keras.layers.Conv2D(4, 3, name="conv")(x))
    quantizer = vitis_quantize.VitisQuantizer(free)
    written = "?,12,12,3"
    for shape in ([1, 12, 12, 3], [None, 12, 12, 3], [12, 12, 3], {"image": (12, 12, 3)}, written):
        made = quantizer.quantize_model(calib_dataset=images, input_shape=shape)
        assert made.output_shape == (None, 10, 10, 4)
    message = refused(
        "QUANTIZER_TF2_INVALID_INPUT_SHAPE", quantizer.quantize_model, images, input_shape=[3, 3]
    )
    assert message.startswith("input_shape of 'image' is [3, 3], but must have 3 sizes")
    message = refused(
        "QUANTIZER_TF2_INVALID_INPUT_SHAPE", quantizer.quantize_model, images, input_shape="?x12"
    )
    assert message.startswith("input_shape is '?x12', but must be sizes with commas between them")


def test_samples_without_a_last_axis_of_one(rng):
    """As Keras takes them: a table of numbers is an image of one channel."""
    x = keras.Input((10, 12, 1), name="table")
    network = keras.Model(x, keras.layers.Conv2D(4, 3, name="conv")(x))
    tables = rng.standard_normal((40, 10, 12)).astype(np.float32)
    images = tables[..., None]
    found = [
        vitis_quantize.VitisQuantizer(network)
        .quantize_model(calib_dataset=data)
        .predict(images, verbose=0)
        for data in (tables, images, list(images))  # the last one: a batch is one sample
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2], found[1])


def test_what_is_refused(model):
    quantizer = vitis_quantize.VitisQuantizer(model)
    code = "QUANTIZER_TF2_INVALID_CALIB_DATASET"
    assert refused(code, quantizer.quantize_model) == "calib_dataset is None, but has to be given"
    assert "is a int, but must be an array" in refused(code, quantizer.quantize_model, 3)

    class Unbuilt(keras.Model):
        pass

    code = "QUANTIZER_TF2_UNSUPPORTED_MODEL"
    assert "has no inputs: only Sequential" in refused(
        code, vitis_quantize.VitisQuantizer, Unbuilt()
    )
    assert refused(code.replace("UNSUPPORTED_MODEL", "INVALID_CALIB_DATASET"),
                   quantizer.get_qat_model, init_quant=True)  # fmt: skip


def test_inspect(model, capsys):
    inspector = vitis_inspect.VitisInspector(target="DPUCZDX8G_ISA1_B4096")
    found = inspector.inspect_model(
        model, plot=True, plot_file="model.svg", dump_results=True,
        dump_results_file="inspect_results.txt", verbose=0,
    )  # fmt: skip
    on_cpu = [node.op_type for node in found.nodes if node.device == "CPU"]
    assert on_cpu[0] == "Sigmoid"
    assert on_cpu[-1] == "Softmax"
    assert "operators are assigned to the DPU" in capsys.readouterr().out
    assert "<svg" in Path("model.svg").read_text()
    assert "DPUCZDX8G_ISA1_B4096" in Path("inspect_results.txt").read_text()
    assert Path("inspect_model.h5").exists()
    code = "QUANTIZER_TF2_INVALID_TARGET"
    assert "needs a target" in refused(code, vitis_inspect.VitisInspector)
    assert "DPUCADF8H" in refused(code, vitis_inspect.VitisInspector, "DPUCADF8H-ISA0")
