# SPDX-License-Identifier: Apache-2.0
"""``ModelQuantizer``: quantizes ONNX models as a configuration says."""

import dataclasses
import glob
import os
import pathlib
import warnings
from typing import Any

import onnx
from onnxruntime.quantization import QuantFormat

from opendpu.export.files import write_onnx
from opendpu.frontend.model_file import read_model
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.tensor_spec import Override, TensorSpec
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError
from quark.onnx.quantization.config.algorithm import (
    AlgoConfig,
    QuarotConfig,
    finetuning_of,
    smoothing_of,
)
from quark.onnx.quantization.config.config import Config, QConfig, QuantizationConfig
from quark.onnx.quantization.config.data_type import DataType
from quark.onnx.quantization.config.spec import QLayerConfig, QTensorConfig
from quark.onnx.quantization.mixed import OPTION as MIXED
from quark.onnx.quantization.mixed import mixed_layers, mixed_rule, with_rule
from quark.onnx.quantization.quant_utils import ExtendedQuantFormat
from vai_q_onnx import options as extra
from vai_q_onnx.calibration import Reader
from vai_q_onnx.enums import PowerOfTwoMethod
from vai_q_onnx.layout import channels_last
from vai_q_onnx.quantize import configuration, is_unsigned, quantized_model
from vai_q_onnx.selection import FLOAT, as_overrides, float_nodes, matching, name_of
from vai_q_onnx.sizes import OPTION

Path = str | os.PathLike[str]

REFUSED = {
    "specific_tensor_precision": "QConfig(specific_layer_config=…) says it by layer",
    "use_dynamic_quant": "the DPU has scales that are fixed: give a calibration_data_reader",
    "include_rotation": QuarotConfig.instead,
}
"""What a configuration of the first form may not ask for, and what there is instead."""

WARNED = ("convert_fp16_to_fp32",)
"""What has no effect: it is always so."""

SELECTION = {"NodesToQuantize": "nodes_to_quantize", "OpTypesToQuantize": "op_types_to_quantize"}
"""Extra options that are arguments elsewhere."""

SILENT = ("DebugMode", "PrintSummary", "IgnoreWarnings", "ExecutionProviders", "OptimizeModel",
          "SimplifyModel", "TmpDir", "UseRandomData", "CryptoMode", "EncryptionAlgorithm",
          "EnableNPUCnn", "EnableNPUTransformer", "AutoMixprecision")  # fmt: skip
"""Extra options that change no number."""

CRYPTO = (
    "crypto_mode keeps model and samples in memory, but finetuning puts results of layers into "
    "temporary files; do one of them"
)


class ModelQuantizer:
    """Quantizes models.

    Parameters
    ----------
    config
        How.

    Raises
    ------
    UnsupportedError
        It is no configuration, or asks for what there is not here.
    """

    def __init__(self, config: Config | QConfig) -> None:
        if not isinstance(config, Config | QConfig):
            raise UnsupportedError(
                f"config is a {type(config).__name__}, but must be a Config or a QConfig; "
                "Config(global_quant_config=…) makes one of a QuantizationConfig"
            )
        self.config = config

    def quantize_model(
        self,
        model_input: Path | onnx.ModelProto,
        model_output: Path | None = None,
        calibration_data_reader: Reader | None = None,
        calibration_data_path: str | None = None,
        algorithms: list[AlgoConfig] | None = None,
    ) -> onnx.ModelProto | None:
        """Quantize a model, and write it or return it.

        Parameters
        ----------
        model_input
            The float model.
        model_output
            Where the quantized one goes; none to return it.
        calibration_data_reader
            Its ``get_next`` gives batches by input; none stands for random data.
        calibration_data_path
            Not here: give a reader.
        algorithms
            As ``algo_config`` of a :class:`QConfig`.

        Raises
        ------
        DPUError
            As of :func:`vai_q_onnx.quantize_static`.
        """
        if calibration_data_path is not None:
            raise UnsupportedError(
                "calibration_data_path is not read here; give a calibration_data_reader"
            )
        if model_output is not None:
            given = () if isinstance(model_input, onnx.ModelProto) else (model_input,)
            outputs.check(model_output, inputs=given)
        if isinstance(self.config, Config):
            made, external = _first(self.config.global_quant_config, model_input,
                                    calibration_data_reader, algorithms or [])  # fmt: skip
        else:
            made, external = _second(self.config, model_input, calibration_data_reader,
                                     algorithms or [])  # fmt: skip
        if model_output is None:
            return made
        write_onnx(made, pathlib.Path(model_output), external_data=external)
        return None


def _first(
    given: QuantizationConfig,
    model: Path | onnx.ModelProto,
    reader: Reader | None,
    algorithms: list[AlgoConfig],
) -> tuple[onnx.ModelProto, bool]:
    """Quantize with a configuration of the first form."""
    for name, instead in REFUSED.items():
        if getattr(given, name):
            raise UnsupportedError(
                f"{name} is {getattr(given, name)!r}, which there is not here; {instead}"
            )
    for name in WARNED:
        if getattr(given, name):
            warnings.warn(f"{name} has no effect here", stacklevel=4)
    options, selection = _options(given.extra_options)
    options.setdefault("IncludeCLE", given.include_cle)
    options.setdefault(OPTION, given.random_data_reader_input_shape)
    if given.include_fast_ft:
        options.setdefault("FastFinetune", {"OptimAlgorithm": "adaround"})
    else:
        options.pop("FastFinetune", None)
    power_of_two = isinstance(given.calibrate_method, PowerOfTwoMethod)
    chosen = extra.checked(options, power_of_two=power_of_two)
    config = configuration(
        given.calibrate_method, given.activation_type, given.weight_type,
        per_channel=given.per_channel, reduce_range=given.reduce_range, options=chosen,
    )  # fmt: skip
    source = read_model(model)
    if given.convert_nchw_to_nhwc:
        source, reader = channels_last(source, reader)
    floating = float_nodes(
        source.proto, input_nodes=given.input_nodes, output_nodes=given.output_nodes,
        nodes_to_exclude=given.nodes_to_exclude,
        nodes_to_quantize=given.nodes_to_quantize or selection.get("nodes_to_quantize"),
        op_types_to_quantize=given.op_types_to_quantize or selection.get("op_types_to_quantize"),
        subgraphs_to_exclude=given.subgraphs_to_exclude,
    )  # fmt: skip
    tuned = finetuning_of(algorithms)
    config = dataclasses.replace(
        config, overrides=as_overrides(floating), finetune=tuned or config.finetune
    )
    if given.include_auto_mp:
        asked = given.extra_options.get(MIXED) or {}
        rule = mixed_rule(asked, source.proto.graph.node, given, chosen)
        config = config if rule is None else with_rule(config, rule)
    secret = given.crypto_mode or bool(given.extra_options.get("CryptoMode"))
    _check_secret(config, secret=secret)
    made, _ = quantized_model(
        source, _or_random(reader, given.extra_options), config, given.quant_format,
        chosen, unsigned=is_unsigned(given.activation_type) and bool(chosen["ActivationSymmetric"]),
        in_memory=secret, smoothing=_smoothing(given, algorithms, chosen),
    )  # fmt: skip
    return made, given.use_external_data_format


def _smoothing(
    given: QuantizationConfig, algorithms: list[AlgoConfig], options: dict[str, Any]
) -> float | None:
    """Return how much of the range of activations goes into weights; none for nothing of it."""
    found = smoothing_of(algorithms)
    return extra.smoothing(options) if found is None and given.include_sq else found


def _second(
    given: QConfig,
    model: Path | onnx.ModelProto,
    reader: Reader | None,
    algorithms: list[AlgoConfig],
) -> tuple[onnx.ModelProto, bool]:
    """Quantize with a configuration of the second form."""
    options, selection = _options(given.extra_options)
    layers = given.global_config
    activation = _tensor(layers.result())
    power_of_two = activation.scale == "power_of_two"
    chosen = extra.checked(options, power_of_two=power_of_two)
    source = read_model(model)
    floating = float_nodes(
        source.proto, **selection,
        nodes_to_exclude=[one for one in given.exclude if isinstance(one, str)],
        subgraphs_to_exclude=[one for one in given.exclude if not isinstance(one, str)],
    )  # fmt: skip
    names = [name_of(node) for node in source.proto.graph.node]
    mixed = mixed_layers([*given.algo_config, *algorithms], source.proto.graph.node, layers)
    rules = [
        *(
            _rule(one, kinds=tuple(kinds))
            for one, kinds in given.layer_type_config.items()
            if kinds  # a rule for none would be one for all
        ),
        *(
            _rule(one, names=tuple(map(glob.escape, found)))
            for one, those in [*given.specific_layer_config.items(), *mixed]
            if (found := matching(names, those))
        ),
        *as_overrides(floating),
    ]
    config = QuantizeConfig(
        input=activation, activation=activation, weights=_tensor(layers.weight),
        bias=_bias(layers), overrides=tuple(rules),
        finetune=finetuning_of([*given.algo_config, *algorithms]),
    )  # fmt: skip
    secret = bool(given.extra_options.get("CryptoMode"))
    _check_secret(config, secret=secret)
    result = layers.result()
    made, _ = quantized_model(
        source, _or_random(reader, given.extra_options), config,
        QuantFormat.QDQ if _is_native(config) else ExtendedQuantFormat.QDQ, chosen,
        unsigned=result is not None and result.is_unsigned, in_memory=secret,
        smoothing=smoothing_of([*given.algo_config, *algorithms]),
    )  # fmt: skip
    return made, given.use_external_data_format


def _check_secret(config: QuantizeConfig, *, secret: bool) -> None:
    if secret and config.finetune is not None:
        raise UnsupportedError(CRYPTO)


def _or_random(reader: Reader | None, options: dict[str, Any]) -> Reader | None:
    """Return the reader, or none where random data is asked for."""
    return None if options.get("UseRandomData") else reader


def _options(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return extra options, and those that say which nodes are quantized by their argument."""
    selection = {ours: given[theirs] for theirs, ours in SELECTION.items() if given.get(theirs)}
    rest = {k: v for k, v in given.items() if k not in SELECTION and k not in SILENT}
    return rest, selection


def _tensor(given: QTensorConfig | None) -> TensorSpec:
    return FLOAT if given is None else given.tensor()


def _bias(layers: QLayerConfig) -> TensorSpec:
    """Return how biases are quantized: as is said, or as suits the weights."""
    if layers.bias is not None:
        return layers.bias.tensor()
    weights = _tensor(layers.weight)
    if weights.number_format != "int":
        return weights
    if weights.scale == "power_of_two":
        return TensorSpec(method="nonoverflow")
    return TensorSpec(bits=32, scale="float", granularity=weights.granularity, method="nonoverflow")


def _rule(
    layers: QLayerConfig | type[DataType] | DataType | None,
    *,
    kinds: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
) -> Override:
    """Return the rule for some layers; none for those that are not quantized.

    A data type is that of all their tensors.
    """
    if layers is not None and not isinstance(layers, QLayerConfig):
        layers = QLayerConfig(input_tensors=layers.spec, weight=layers.spec)
    if layers is None:
        return Override(kinds=kinds, names=names, weights=FLOAT, bias=FLOAT, activation=FLOAT)
    return Override(
        kinds=kinds, names=names, weights=_tensor(layers.weight), bias=_bias(layers),
        activation=_tensor(layers.result()),
    )  # fmt: skip


def _is_native(config: QuantizeConfig) -> bool:
    """Return whether ONNX's own operators can say it: 8 bits everywhere but in biases."""
    return all(
        spec.number_format in ("int", "float32") and (spec.bits == 8 or role == "bias")
        for role, spec in config.specs()
    )
