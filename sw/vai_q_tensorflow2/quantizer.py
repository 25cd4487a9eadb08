# SPDX-License-Identifier: Apache-2.0
"""``VitisQuantizer``."""

import dataclasses
import functools
import importlib.util
import os
import pathlib
import warnings
from collections.abc import Mapping
from typing import Any

from opendpu import api
from opendpu.export import to_onnx
from opendpu.export.files import write_onnx
from opendpu.export.golden import BATCH, WEIGHTS, dump_activations, dump_weights, make_folder
from opendpu.export.reference import IntegerReference
from opendpu.frontend.binding import asking
from opendpu.frontend.tensorflow.keras_model import load_keras
from opendpu.ir import FloatGraph
from opendpu.quantize import QuantizeConfig, Report, quantize_with_report
from opendpu.quantize.samples import calibration_samples
from opendpu_arch.errors import UnsupportedError
from vai_q_tensorflow2 import strategy as strategies
from vai_q_tensorflow2.dataset import (
    PeekableBatches,
    batches,
    random_batch,
    with_all_axes,
)
from vai_q_tensorflow2.network import QuantizedNetwork, as_model, network_of
from vai_q_tensorflow2.shapes import input_shapes, left_open, shapes_of_data
from vai_q_tensorflow2.strategy import ROLES
from vai_q_tensorflow2.structure import name_of
from vai_q_tensorflow2.training import trainable_model, training_layer

FORMATS = ("", "h5", "onnx")
FILE = "quantized_model"
Path = str | os.PathLike[str]


class VitisQuantizer:
    """Quantizes Keras models.

    Parameters
    ----------
    float_model
        A functional or Sequential model.
    quantize_strategy
        ``pof2s`` for DPUs; ``fs``, ``fsx`` with any scales, which no DPU runs; ``pof2s_tqt`` is
        that of training.
    custom_quantize_strategy
        Other settings: a JSON file in the form of :meth:`dump_quantize_strategy`, or a dictionary.
    custom_objects
        Taken and ignored: a model in memory knows its layers.
    target
        The DPU whose limits hold: a name, a fingerprint or an ``arch.json``.

    Raises
    ------
    UnsupportedError
        An unknown strategy, or a model that has no inputs.
    TargetError
        There is no such target.
    """

    def __init__(
        self, float_model: Any, quantize_strategy: str = "pof2s",
        custom_quantize_strategy: Path | Mapping[str, Any] | None = None,
        custom_objects: Mapping[str, Any] | None = None, target: str | None = None, **_: Any,
    ) -> None:  # fmt: skip
        if not getattr(float_model, "inputs", None):
            raise UnsupportedError(
                f"model {getattr(float_model, 'name', float_model)!r} has no inputs: only "
                "Sequential and functional models can be quantized",
                code="QUANTIZER_TF2_UNSUPPORTED_MODEL",
            )
        self._model = float_model
        self._strategy = strategies.default_strategy(quantize_strategy)
        self._target = api.find_target(os.fspath(target)) if target else None
        self.report: Report | None = None
        """What the quantizer did last."""
        if custom_quantize_strategy is not None:
            self.set_quantize_strategy(custom_quantize_strategy)

    def quantize_model(
        self, calib_dataset: Any = None, calib_batch_size: int | None = None,
        calib_steps: int | None = None, verbose: int = 0, add_shape_info: bool = False,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Quantize, and return a Keras model that computes what the DPU will.

        Parameters
        ----------
        calib_dataset, calib_batch_size, calib_steps
            As of :func:`vai_q_tensorflow2.dataset.batches`.
        verbose
            Above 0, what the quantizer did is printed.
        add_shape_info
            Taken and ignored: shapes are known of every layer.
        kwargs
            ``input_shape``, and settings of the strategy for this call.

        Raises
        ------
        DPUError
            As of :func:`opendpu.frontend.tensorflow.keras_model.load_keras` and
            :func:`opendpu.quantize.quantize_with_report`; unknown settings.
        """
        steps = kwargs.pop("calib_step", calib_steps)  # as the guide spells it in places
        seen = self._batches(calib_dataset, steps, calib_batch_size)
        strategy, graph, config = self._prepared(kwargs, seen, "quantize_model")
        if config.finetune is not None and importlib.util.find_spec("torch") is None:
            warnings.warn(
                "include_fast_ft needs PyTorch, which is not installed (pip install "
                "'opendpu[torch]'): weights are corrected in closed form only", stacklevel=2,
            )  # fmt: skip
            config = dataclasses.replace(config, finetune=None)
        data: Any
        if calib_dataset is None and not strategies.needs_data(config):
            data = random_batch(graph, config.seed)
        else:
            data = with_all_axes(graph, seen)
        found = quantize_with_report(graph, data, config)
        self.report = found.report
        if verbose and found.report is not None:
            print("\n".join(["Quantization finished", *found.report.lines()]))  # noqa: T201
        exact = not config.deployable()
        made = as_model(found.graph, self._model, exact=exact)
        _save(made, network_of(made), strategy["pipeline_config"]["finalize_pipeline_config"])
        return made

    def _batches(self, dataset: Any, steps: int | None, size: int | None) -> PeekableBatches:
        """Return calibration data; that there is none is said when it is read."""
        names = [name_of(tensor) for tensor in self._model.inputs]
        return PeekableBatches(batches(dataset, names, steps=steps, batch_size=size))

    def _prepared(
        self, given: dict[str, Any], seen: PeekableBatches, call: str
    ) -> tuple[dict[str, Any], FloatGraph, QuantizeConfig]:
        """Return the strategy of a call, the model as a graph, and what it means for that.

        Sizes that the model leaves open, and ``input_shape`` does not say, are those of the data.
        """
        shape = given.pop("input_shape", None)
        strategy = strategies.updated(self._strategy, given)
        pipeline = strategy["pipeline_config"]
        form = pipeline["finalize_pipeline_config"]["output_format"]
        if form not in FORMATS:
            raise UnsupportedError(
                f"output_format is {form!r}, but must be '', 'h5' or 'onnx': what a SavedModel "
                "holds cannot compute as the DPU does"
            )
        if shape is None and any(None in tuple(x.shape)[1:] for x in self._model.inputs):
            sizes = shapes_of_data(self._model, seen.peek())
        else:
            sizes = input_shapes(self._model, shape)
        with asking(functools.partial(left_open, call)):
            graph = load_keras(self._model, sizes)
        kept = _outside(graph, pipeline["quantize_pipeline_config"])
        config = strategies.configuration(strategy, kept, _by_class(self._model))
        return strategy, graph, dataclasses.replace(config, target=self._target)

    def dump_quantize_strategy(
        self, dump_file: Path = "quantize_strategy.json", verbose: int = 0
    ) -> None:
        """Write the strategy as JSON."""
        strategies.write(self._strategy, dump_file, verbose=verbose)

    def set_quantize_strategy(
        self, new_quantize_strategy: Path | Mapping[str, Any] = "quantize_strategy.json"
    ) -> None:
        """Change the strategy: what a JSON file or dictionary says of it."""
        self._strategy = strategies.updated(self._strategy, strategies.read(new_quantize_strategy))

    def get_qat_model(
        self, init_quant: bool = False, calib_dataset: Any = None,
        calib_batch_size: int | None = None, calib_steps: int | None = None,
        train_with_bn: bool = False, freeze_bn_delay: int = -1, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Return a Keras model to be trained, with the rounding of its program.

        Parameters
        ----------
        init_quant
            Whether it begins with the scales that ``quantize_model`` chooses for
            ``calib_dataset``; otherwise those are taken that the first batch needs.
        calib_dataset, calib_batch_size, calib_steps
            As of :meth:`quantize_model`.
        train_with_bn, freeze_bn_delay
            Taken and ignored: batch normalizations are in the weights from the beginning.
        kwargs
            As of :meth:`quantize_model`.

        Raises
        ------
        TensorError
            ``init_quant`` without data.
        UnsupportedError
            Scales that are no powers of two, or an op that TensorFlow has not.
        """
        seen = self._batches(calib_dataset, calib_steps, calib_batch_size)
        strategy, graph, config = self._prepared(kwargs, seen, "get_qat_model")
        if config.deployable():
            raise UnsupportedError(
                f"get_qat_model trains what a DPU runs, but {'; '.join(config.deployable())}"
            )
        data: Any = random_batch(graph, config.seed)
        if init_quant:
            data = with_all_axes(graph, seen)
        if not init_quant:
            config = dataclasses.replace(config, cross_layer=False)
        config = dataclasses.replace(
            config, bias_correction=False, weight_correction=False, finetune=None,
            refinement=config.refinement and init_quant,
        )  # fmt: skip
        found = quantize_with_report(graph, data, config)
        assert found.reference is not None
        bits = {role: getattr(config, role).bits for role in ROLES.values()}
        return trainable_model(
            found.reference, found.graph if init_quant else None, bits, self._model,
            train_scales=strategy["train_scales"],
        )  # fmt: skip

    @staticmethod
    def get_deploy_model(
        model: Any, add_shape_info: bool = False, input_shape: Any = None, **kwargs: Any
    ) -> Any:
        """Return what was trained as :meth:`quantize_model` returns it: it computes as the DPU.

        Parameters
        ----------
        model
            What :meth:`get_qat_model` returned, or a model that was saved and loaded again.
        add_shape_info, input_shape
            Taken and ignored: shapes are known of every layer.
        kwargs
            ``output_format``, ``output_dir``, as of :meth:`quantize_model`.

        Raises
        ------
        UnsupportedError
            Another model, or unknown settings.
        """
        layer = training_layer(model)
        if layer is None:
            raise UnsupportedError(
                f"model {model.name!r} is not trained with quantization: "
                "VitisQuantizer.get_qat_model makes one",
                code="QUANTIZER_TF2_UNSUPPORTED_MODEL",
            )
        strategy = strategies.updated(strategies.default_strategy("pof2s"), kwargs)
        made = as_model(layer.quantized(), model, exact=True)
        _save(made, network_of(made), strategy["pipeline_config"]["finalize_pipeline_config"])
        return made

    @staticmethod
    def dump_model(
        model: Any, dataset: Any = None, output_dir: Path = "./dump_results",
        dump_float: bool = False, weights_only: bool = False,
    ) -> None:  # fmt: skip
        """Write golden results of a quantized model: weights, and every layer's results.

        The files are those of :mod:`opendpu.export.golden`: ``dump_results_weights``, and a folder
        ``dump_results_<batch>`` for each batch, of one sample.

        Raises
        ------
        UnsupportedError
            The model is not quantized, or a batch has more than one sample.
        TensorError
            There is no data.
        OutputError
            A file cannot be written.
        """
        network = network_of(model)
        graph, folder = network.graph, make_folder(output_dir)
        names = {"weights": "_kernel", "bias": "_bias"}
        dump_weights(graph, make_folder(folder / WEIGHTS), names=names)
        if weights_only:
            return
        reference = IntegerReference(graph)
        for number, batch in enumerate(batches(dataset, network.input_names, batch_size=1)):
            samples = calibration_samples(graph, batch)
            if samples.count != 1:
                raise UnsupportedError(
                    f"batch {number} of the dataset has {samples.count} samples, but must have 1, "
                    "as the DPU takes them"
                )
            place = make_folder(folder / BATCH.format(number))
            dump_activations(reference, samples.single(0), place, dump_float=dump_float)


def _outside(graph: FloatGraph, config: Mapping[str, Any]) -> list[str]:
    """Return what stays in float: ignored layers, what is before the first and behind the last."""
    kept = list(config["ignore_layers"])
    for key, names in (("input_layers", graph.nodes), ("output_layers", graph.nodes)):
        wanted = list(config[key])
        missing = [layer for layer in wanted if not any(_belongs(name, layer) for name in names)]
        if missing:
            raise UnsupportedError(f"{key} has {missing[0]!r}, but the model has no such layer")
        if wanted:
            kept += _before(graph, wanted) if key == "input_layers" else _behind(graph, wanted)
    return kept


def _by_class(model: Any) -> dict[str, list[str]]:
    """Return the names of layers by class, those of models inside included."""
    found: dict[str, list[str]] = {}
    for layer in getattr(model, "layers", ()):
        found.setdefault(type(layer).__name__, []).append(layer.name)
        for kind, names in _by_class(layer).items():
            found.setdefault(kind, []).extend(names)
    return found


def _belongs(op: str, layer: str) -> bool:
    head = op.split("/", 1)[0]
    return head == layer or (head.startswith(f"{layer}_") and head[len(layer) + 1 :].isdigit())


def _before(graph: FloatGraph, layers: list[str]) -> list[str]:
    """Return the ops that lead to some layers, these not among them."""
    found: set[str] = set()
    for node in reversed(list(graph)):
        inside = any(_belongs(node.name, layer) for layer in layers)
        if inside or node.name in found:
            found.update(
                name for name in node.sources()
                if not any(_belongs(name, layer) for layer in layers)
            )  # fmt: skip
    return [name for name in found if graph[name].kind != "const"]


def _behind(graph: FloatGraph, layers: list[str]) -> list[str]:
    """Return the ops that some layers lead to, these not among them."""
    reached: set[str] = set()
    kept = []
    for node in graph:
        inside = any(_belongs(node.name, layer) for layer in layers)
        if not inside and not reached.isdisjoint(node.sources()):
            kept.append(node.name)
            reached.add(node.name)
        elif inside:
            reached.add(node.name)
    return kept


def _save(model: Any, network: QuantizedNetwork, finalize: Mapping[str, Any]) -> None:
    """Write the model in the format that is asked for."""
    if not finalize["output_format"]:
        return
    path = make_folder(pathlib.Path(finalize["output_dir"])) / FILE
    if finalize["output_format"] == "h5":
        model.save(path.with_suffix(".h5"))
    else:
        write_onnx(to_onnx(network.graph), path.with_suffix(".onnx"))
