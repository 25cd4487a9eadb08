# SPDX-License-Identifier: Apache-2.0
"""The command ``vai_q_tensorflow``: a frozen graph quantized, evaluated by TensorFlow, compiled."""

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from opendpu import api  # noqa: E402
from opendpu.cli.vai_c import app_tensorflow  # noqa: E402
from opendpu.frontend.tensorflow import load_frozen  # noqa: E402
from opendpu.frontend.tensorflow.runtime import convert_to_constants  # noqa: E402
from opendpu.ops.session import Session  # noqa: E402
from opendpu.quantize import complete  # noqa: E402
from opendpu_arch.errors import DPUError  # noqa: E402
from vai_q_tensorflow.configuration import configuration  # noqa: E402
from vai_q_tensorflow.graph import read_nodes  # noqa: E402
from vai_q_tensorflow.main import main, parser  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def write(model):
    """Write a function of images as frozen graph."""
    function = tf.function(lambda x: tf.identity(model(x), name="scores"))
    spec = tf.TensorSpec((None, 12, 12, 3), tf.float32, name="image")
    made = convert_to_constants.convert_variables_to_constants_v2(
        function.get_concrete_function(spec)
    )
    nodes = made.graph.as_graph_def()
    Path("float.pb").write_bytes(nodes.SerializeToString())


@pytest.fixture
def frozen(model, images):
    """Write the model as frozen graph with data beside it; return the options that name them."""
    write(model)
    np.save("images.npy", images)
    Path("my_data.py").write_text(
        "import numpy as np\n"
        "IMAGES = np.load('images.npy')\n"
        "def calib_input(step):\n"
        "    return {'image': list(IMAGES[4 * step : 4 * step + 4])}\n"
        "def one(step):\n"
        "    return {'image:0': IMAGES[step : step + 1]}\n"
    )
    return [
        "--input_frozen_graph", "float.pb", "--input_nodes", "image", "--input_shapes", "?,12,12,3",
        "--output_nodes", "scores", "--input_fn", "my_data.calib_input",
    ]  # fmt: skip


def evaluated(path, images, result="scores", given="image"):
    """Return what TensorFlow computes of a frozen graph."""
    nodes = tf.compat.v1.GraphDef.FromString(Path(path).read_bytes())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(nodes, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            return session.run(f"{result}:0", {f"{given}:0": images})


def test_quantize_evaluate_compile_dump(frozen, model, images, capsys):
    main(["quantize", *frozen, "--calib_iter", "10", "--method", "1", "--gpu", "0"])
    assert "INFO: Output: quantize_results/deploy_model.pb" in capsys.readouterr().out
    wanted = model(images).numpy()
    found = evaluated("quantize_results/quantize_eval_model.pb", images)
    assert 0 < np.abs(found - wanted).max() < 0.05
    graphs = [
        complete(load_frozen(f"quantize_results/{name}.pb", {"image": (1, 12, 12, 3)}))
        for name in ("quantize_eval_model", "deploy_model")
    ]
    for graph in graphs:
        (made,) = Session(graph, batched=True).run({"image": images}).values()
        np.testing.assert_allclose(made, found, atol=2e-3)
    points = [sorted(n.fix_point for n in graph if n.kind == "fix") for graph in graphs]
    assert points[0] == points[1]
    report = api.compile_onnx(
        "quantize_results/deploy_model.pb", target="B512", output="net.xmodel"
    )
    assert "DPU" in [part.device for part in report.subgraphs]
    options = ["-a", "B512", "-o", "compiled", "-n", "net", "-e", "{'mode': 'normal'}"]
    arguments = ["--frozen_pb", "quantize_results/quantize_eval_model.pb", *options]
    result = CliRunner().invoke(app_tensorflow, arguments)
    assert result.exit_code == 0, result.output
    assert Path("compiled/meta.json").exists()
    with (
        api.create_runner("net.xmodel", device="ref") as runner,
        api.create_runner("compiled/net.xmodel", device="ref") as other,
    ):
        given = {"image": images[:2]}
        results = [api.run_batch(one, given, floats=True)[0] for one in (runner, other)]
    for name, array in results[0].items():
        np.testing.assert_array_equal(array, results[1][name])
    main(["dump", "--input_frozen_graph", "quantize_results/quantize_eval_model.pb",
          "--input_nodes", "image", "--input_shapes", "1,12,12,3", "--input_fn", "my_data.one",
          "--max_dump_batches", "2", "--output_dir", "dumped"])  # fmt: skip
    assert {path.name for path in Path("dumped").iterdir()} == {"dump_results_0", "dump_results_1"}
    assert list(Path("dumped/dump_results_1").glob("*_wquant.bin"))


def test_transposed_convolutions_come_back_as_such(frozen, images):
    """An uneven padding is no cut behind a larger one, which the DPU would not take."""
    kernel = np.random.default_rng(0).normal(size=(3, 3, 4, 3)).astype(np.float32)

    def enlarged(x):
        made = tf.nn.conv2d_transpose(x, kernel, [tf.shape(x)[0], 24, 24, 4], 2, "SAME")
        return tf.nn.relu(made)

    write(enlarged)
    main(["quantize", *frozen, "--calib_iter", "2"])
    path = "quantize_results/quantize_eval_model.pb"
    graph = complete(load_frozen(path, {"image": (1, 12, 12, 3)}))
    kinds = {node.kind for node in graph}
    assert "transposed-conv2d" in kinds
    assert "strided_slice" not in kinds
    found, wanted = evaluated(path, images), enlarged(images).numpy()
    assert found.shape == wanted.shape
    assert 0 < np.square(found - wanted).sum() < np.square(wanted).sum() / 100


def test_onnx_and_inspect(frozen, capsys):
    main(["quantize", *frozen, "--calib_iter", "2", "--output_format", "onnx", "--do_cle", "0"])
    assert Path("quantize_results/quantize_eval_model.onnx").exists()
    capsys.readouterr()
    main(["inspect", "--input_frozen_graph", "float.pb"])
    said = capsys.readouterr().out
    assert said.startswith("Op types used: ")
    assert "Found 1 possible inputs: (name=image, type=float(1), shape=[?,12,12,3])" in said
    assert "Found 1 possible outputs: (name=" in said


def test_what_options_mean(frozen):
    given = parser().parse_args(["quantize", *frozen, "--weight_bit", "6", "--method", "0",
                                 "--nodes_bit", "conv1/weights:4,conv1:7", "--ignore_nodes", "a,b",
                                 "--replace_sigmoid", "1"])  # fmt: skip
    config = configuration(given)
    assert (config.weights.bits, config.bias.bits, config.activation.bits) == (6, 6, 8)
    assert config.weights.method == "nonoverflow"
    assert config.activation_substitution == "hard"
    assert config.cross_layer
    first, second, third = config.overrides
    assert (first.weights.bits, first.activation) == (4, None)
    assert (second.activation.bits, second.weights) == (7, None)
    assert third.names == ("a", "a/*", "b", "b/*")


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        (["--weight_bit", "1"], "QUANTIZER_TF1_INVALID_BITWIDTH", "weights: 1 bits, but there"),
        (["--method", "3"], "QUANTIZER_TF1_INVALID_METHOD", "method: method is 3, but must be"),
        (["--convert_datatype", "3"], "QUANTIZER_TF1_INVALID_TARGET_DTYPE", "must be 0"),
        (["--input_shapes", "?,2:?,3"], "QUANTIZER_TF1_LENGTH_MISMATCH", "has 2 shapes, but"),
        (["--input_shapes", "?,a"], "QUANTIZER_TF1_LENGTH_MISMATCH", "has '?,a', but must have"),
        (["--input_shapes", "0,12,12,3"], "QUANTIZER_TF1_LENGTH_MISMATCH", "has '0,12,12,3', but"),
        (
            ["--input_fn", "calib_input"],
            "QUANTIZER_TF1_INVALID_INPUT_FN",
            "must be module.function",
        ),
        (["--input_frozen_graph", "."], "QUANTIZER_TF1_INVALID_INPUT", "graph .: is no file"),
        (["--calib_iter", "0"], None, "calib_iter is 0, but must be 1 or more"),
        (["--do_cle", "5"], None, "do_cle is 5, but must be 0 to 1"),
        (["--replace_sigmoid", "-1"], None, "replace_sigmoid is -1, but must be 0 to 1"),
        (["--input_fn", "nowhere.f"], "QUANTIZER_TF1_INVALID_INPUT_FN", "cannot be imported"),
        (["--input_fn", "my_data.IMAGES"], "QUANTIZER_TF1_INVALID_INPUT_FN", "is no function"),
        (["--input_fn", ""], "QUANTIZER_TF1_INVALID_INPUT_FN", "input_fn has to be given"),
        (["--input_nodes", "x"], "QUANTIZER_TF1_INVALID_INPUT", "input_nodes has 'x', but"),
        (["--input_frozen_graph", "no.pb"], "QUANTIZER_TF1_INVALID_INPUT", "no.pb: no such file"),
        (["--output_format", "h5"], None, "output_format is 'h5', but must be one of pb, onnx"),
        (["--arch_type", "DPUCADF8H"], None, "arch_type is 'DPUCADF8H', but must be 'DEFAULT'"),
    ],
)
def test_what_is_refused(frozen, changes, code, message):
    from vai_q_tensorflow.quantizing import quantize

    with pytest.raises(DPUError) as caught:
        quantize(parser().parse_args(["quantize", *frozen, *changes]))
    assert message in caught.value.message
    assert code is None or caught.value.code == code
    with pytest.raises(SystemExit, match="error: "):
        main(["quantize", *frozen, *changes])


def test_dump_wants_a_quantized_graph(frozen):
    from vai_q_tensorflow.dumping import dump

    with pytest.raises(DPUError, match=r"float\.pb is not quantized: vai_q_tensorflow") as caught:
        dump(parser().parse_args(["dump", *frozen]))
    assert caught.value.code == "QUANTIZER_TF1_MISSING_QUANTIZE_INFO"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise KeyError('lost')", r"called for step 0: KeyError: 'lost' \(.*bad_data\.py:2\)"),
        ("return {'image': 'a text'}", "elements of type <U6 for step 0 and input 'image', but"),
        ("return {'image': [[1, 2], [3]]}", "what is no array: .*inhomogeneous"),
        ("return {'image': (1j,)}", "elements of type complex128"),
        ("return {'image': None}", "elements of type object"),
        ("return [1]", "gives list for step 0, but must give a dictionary"),
    ],
)
def test_input_functions_that_are_wrong(frozen, body, message, monkeypatch):
    Path("bad_data.py").write_text(f"def given(step):\n    {body}\n")
    monkeypatch.delitem(sys.modules, "bad_data", raising=False)
    with pytest.raises(SystemExit, match=message) as caught:
        main(["quantize", *frozen, "--input_fn", "bad_data.given"])
    assert "\n" not in str(caught.value.code)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max_dump_batches", "-1"], "max_dump_batches is -1, but must be 1 or more"),
        (["--input_fn", ""], "input_fn has to be given: module.function"),
    ],
)
def test_wrong_dumps(frozen, options, message):
    main(["quantize", *frozen, "--calib_iter", "1"])
    graph = ["--input_frozen_graph", "quantize_results/quantize_eval_model.pb"]
    with pytest.raises(SystemExit, match=message):
        main(["dump", *frozen, *graph, *options])


def test_input_inside_of_the_graph(frozen, model, images):
    """The part behind a node is quantized with what the node would give."""
    nodes = read_nodes("float.pb")
    inner = next(node for node in nodes.values() if node.op == "Relu")
    features = evaluated("float.pb", images, inner.name)
    np.save("features.npy", features)
    Path("inner_data.py").write_text(
        "import numpy as np\nFEATURES = np.load('features.npy')\n"
        f"def given(step):\n    return {{{inner.name!r}: FEATURES}}\n"
    )
    shape = ",".join(map(str, features.shape[1:]))
    main(["quantize", *frozen, "--input_nodes", inner.name, "--input_shapes", f"?,{shape}",
          "--input_fn", "inner_data.given", "--calib_iter", "1"])  # fmt: skip
    found = evaluated("quantize_results/quantize_eval_model.pb", features, given=inner.name)
    assert 0 < np.abs(found - model(images).numpy()).max() < 0.05
