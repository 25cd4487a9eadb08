# SPDX-License-Identifier: Apache-2.0
"""``vai_q_onnx.quantize_static``."""

import dataclasses
import enum
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnxruntime.quantization import QuantFormat, QuantType

from opendpu.export import to_onnx
from opendpu.export.files import write_onnx
from opendpu.export.open_batch import keeps_open_batch, name_batch
from opendpu.frontend import load_onnx
from opendpu.frontend.model_file import AnyModel, read_model
from opendpu.quantize import Report, quantize_with_report, set_aside
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.tensor_spec import TensorSpec
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError
from vai_q_onnx import options as extra
from vai_q_onnx.calibration import RandomDataReader, Reader, batches_of, collected
from vai_q_onnx.enums import (
    FLOATS,
    INTEGERS,
    METHODS,
    PowerOfTwoMethod,
    VitisQuantFormat,
    form_of,
)
from vai_q_onnx.layout import channels_last
from vai_q_onnx.selection import as_overrides, float_nodes
from vai_q_onnx.sizes import OPTION, fixed, of_random_data
from vai_q_onnx.smoothing import smoothed
from vai_q_onnx.unsigned import store_unsigned

Path = str | os.PathLike[str]


def quantize_static(
    model_input: Path | onnx.ModelProto,
    model_output: Path,
    calibration_data_reader: Reader | None,
    quant_format: enum.Enum = VitisQuantFormat.FixNeuron,
    calibrate_method: enum.Enum = PowerOfTwoMethod.MinMSE,
    input_nodes: Sequence[str] = (),
    output_nodes: Sequence[str] = (),
    op_types_to_quantize: Sequence[str] | None = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    activation_type: enum.Enum = QuantType.QInt8,
    weight_type: enum.Enum = QuantType.QInt8,
    nodes_to_quantize: Sequence[str] | None = None,
    nodes_to_exclude: Sequence[str] | None = None,
    optimize_model: bool = True,
    use_external_data_format: bool = False,
    extra_options: Mapping[str, Any] | None = None,
    *,
    convert_nchw_to_nhwc: bool = False,
    **later: Any,
) -> Report:
    """Quantize an ONNX model with calibration data, and write it.

    Parameters
    ----------
    model_input
        The float model.
    model_output
        Where the quantized model goes.
    calibration_data_reader
        Its ``get_next`` gives batches by input; none stands for random data, for a quick test.
    quant_format
        Operators that quantize: ``QuantFormat.QDQ``, ``VitisQuantFormat.QDQ`` or ``.FixNeuron``.
        ``QuantFormat.QDQ`` is nothing but ONNX's own operators, which round halves to even where
        the DPU rounds them up; the others say that in the model. ``QuantFormat.QOperator`` is
        that with operators on integers, for CPUs: :mod:`vai_q_onnx.tools.convert_qdq_to_qop`.
    calibrate_method
        ``PowerOfTwoMethod`` for DPUs, or ``CalibrationMethod`` of onnxruntime: any scale.
    input_nodes, output_nodes
        Where quantization starts and ends; by default everywhere.
    op_types_to_quantize, nodes_to_quantize, nodes_to_exclude
        What is quantized; by default everything that can be.
    per_channel, reduce_range
        Weights with a scale for each channel, or of 7 bits; no DPU runs these.
    activation_type, weight_type
        ``QuantType`` or ``VitisQuantType``. Symmetric activations of an unsigned type, as for
        AMD's NPUs, are those of the signed one with an offset: zero is 128 of ``QUInt8``. The
        DPU runs them as it does signed ones.
    optimize_model
        Taken and ignored: batch normalization and the like are folded always.
    use_external_data_format
        Whether large constants go to a file beside the model.
    extra_options
        See :mod:`vai_q_onnx.options`.
    convert_nchw_to_nhwc
        Whether the quantized model takes images as NHWC; the reader gives NCHW all the same.
    later
        Arguments that AMD's function got after the guide: ``include_cle``, ``include_sq``,
        ``enable_dpu`` and ``enable_ipu_cnn`` (which is how it always is), others without effect.

    Returns
    -------
    What was done, where AMD's function gives nothing.

    Raises
    ------
    DPUError
        As of :func:`opendpu.frontend.load_onnx` and :func:`opendpu.quantize.quantize_with_report`,
        for options that contradict each other, and for an output that cannot be written; the last
        two are known before long work.
    """
    form_of(quant_format)
    power_of_two = isinstance(calibrate_method, PowerOfTwoMethod)
    chosen = extra.checked(extra.with_later(extra_options, later), power_of_two=power_of_two)
    # The model is read as a whole before its file may be written; constants beside it are not.
    given: tuple[Path, ...] = ()
    if use_external_data_format and not isinstance(model_input, onnx.ModelProto):
        given = (model_input,)
    outputs.check(model_output, inputs=given)
    model, reader = read_model(model_input), calibration_data_reader
    if convert_nchw_to_nhwc:
        model, reader = channels_last(model, reader)
    floating = float_nodes(
        model.proto, input_nodes=input_nodes, output_nodes=output_nodes,
        op_types_to_quantize=op_types_to_quantize, nodes_to_quantize=nodes_to_quantize,
        nodes_to_exclude=nodes_to_exclude,
    )  # fmt: skip
    config = configuration(
        calibrate_method, activation_type, weight_type, per_channel=per_channel,
        reduce_range=reduce_range, options=chosen,
    )  # fmt: skip
    config = dataclasses.replace(config, overrides=as_overrides(floating))
    made, report = quantized_model(
        model, reader, config, quant_format, chosen,
        unsigned=is_unsigned(activation_type) and bool(chosen["ActivationSymmetric"]),
        smoothing=extra.smoothing(chosen) if later.get("include_sq") else None,
    )  # fmt: skip
    write_onnx(made, model_output, external_data=use_external_data_format)
    return report


def quantized_model(
    model: AnyModel,
    reader: Reader | None,
    config: QuantizeConfig,
    quant_format: enum.Enum,
    options: Mapping[str, Any],
    *,
    unsigned: bool = False,
    in_memory: bool = False,
    smoothing: float | None = None,
) -> tuple[onnx.ModelProto, Report]:
    """Return a model quantized, and what was done.

    Parameters
    ----------
    model
        The float model.
    reader, quant_format
        As for :func:`quantize_static`; sizes that the model leaves open are those of the first
        batch, or as :mod:`vai_q_onnx.sizes` says.
    config
        What to do.
    options
        Options as :func:`vai_q_onnx.options.checked` returns them.
    unsigned
        Whether activations are stored with an offset of half their range, see
        :mod:`vai_q_onnx.unsigned`; of ONNX's own operators around float ones only.
    in_memory
        Whether samples and results of layers stay there, where else they wait in files of a
        temporary folder.
    smoothing
        How much of the range of activations goes into weights that they are multiplied with, see
        :mod:`vai_q_onnx.smoothing`; none for nothing of it.
    """
    form = form_of(quant_format)
    source = read_model(model)
    if reader is None:
        sizes = of_random_data(source.proto, options.get(OPTION))
        graph = load_onnx(source, sizes)
        reader = RandomDataReader(
            graph, seed=int(options.get("RandomDataReaderSeed", 0)),
            ranges=options.get("RandomDataReaderInputDataRange"),
        )  # fmt: skip
        batches = batches_of(reader)
    else:
        sizes, batches = fixed(source.proto, batches_of(reader))
        graph = load_onnx(source, sizes)
    if smoothing is not None:
        batches = iter(kept := list(batches))
        source, count = smoothed(source, kept, smoothing)
        if not count:
            warnings.warn(
                "SmoothQuant has no effect: no product with constant weights (MatMul, Gemm) reads "
                "an activation that constants scale and nothing else reads",
                stacklevel=3,
            )
        graph = load_onnx(source, sizes)
    if in_memory:
        with set_aside.in_memory():
            found = quantize_with_report(graph, collected(batches), config)
    else:
        found = quantize_with_report(graph, batches, config)
    integers = quant_format is QuantFormat.QOperator
    wide = form != "native" and any(s.bits > 8 for role, s in config.specs() if role == "weights")
    pairs = (bool(options["AddQDQPairToWeight"]) or wide) and not integers
    is_open = keeps_open_batch(source.proto, found.graph)
    made = to_onnx(
        found.graph, form, exact=form != "native", pairs=pairs,
        simulate=bool(options.get("SimulateDPU", True)), dynamic_batch=is_open,
    )  # fmt: skip
    if is_open:
        name_batch(made, source.proto)
    if integers:
        from vai_q_onnx.tools.convert_qdq_to_qop import convert_qdq_to_qop

        made = convert_qdq_to_qop(made)
    elif unsigned and form == "native":
        store_unsigned(made)
    assert found.report is not None
    return made, found.report


def configuration(
    calibrate_method: enum.Enum,
    activation_type: enum.Enum,
    weight_type: enum.Enum,
    *,
    per_channel: bool,
    reduce_range: bool,
    options: Mapping[str, Any],
) -> QuantizeConfig:
    """Return what the arguments say in our terms.

    Raises
    ------
    UnsupportedError
        A method or type that there is not, or ``reduce_range`` of weights without 8 bits.
    """
    if calibrate_method not in METHODS:
        raise UnsupportedError(
            f"calibrate_method is {calibrate_method!r}, but must be one of "
            f"{', '.join(map(str, METHODS))}"
        )
    scale, method = METHODS[calibrate_method]
    symmetric = bool(options["ActivationSymmetric"]), bool(options["WeightSymmetric"])
    activation = tensor_spec("activation_type", activation_type, symmetric=symmetric[0])
    weights = tensor_spec("weight_type", weight_type, symmetric=symmetric[1])
    if reduce_range and weights.bits != 8:
        raise UnsupportedError(f"reduce_range makes 7 bits of 8, but weight_type is {weight_type}")
    granularity = "per_channel" if per_channel else "per_tensor"
    activation = dataclasses.replace(
        activation, scale=scale, method=method,
        percentile=float(options.get("Percentile", TensorSpec.percentile)),
    )  # fmt: skip
    weights = dataclasses.replace(
        weights, scale=scale, granularity=granularity, bits=weights.bits - reduce_range,
        method=method if scale == "power_of_two" else "max",
    )  # fmt: skip
    bias = TensorSpec(method="nonoverflow")
    if weights.number_format != "int":
        bias = TensorSpec(number_format=weights.number_format)
    elif scale == "float":
        bias = dataclasses.replace(bias, bits=32, scale=scale, granularity=granularity)
    hard = any(options.get(key) for key in ("ConvertSigmoidToHardSigmoid", "ReplaceSigmoid"))
    return QuantizeConfig(
        input=activation, activation=activation, weights=weights, bias=bias,
        cross_layer=bool(options.get("IncludeCLE", True)),
        bias_correction=bool(options.get("BiasCorrection", True)),
        activation_substitution="hard" if hard else "none", finetune=extra.finetuning(options),
    )  # fmt: skip


def tensor_spec(what: str, given: enum.Enum, *, symmetric: bool) -> TensorSpec:
    """Return how tensors of a type are quantized; ``what`` it is of, for the message.

    Unsigned integers with real zero in the middle of their range are signed ones, stored with an
    offset.

    Raises
    ------
    UnsupportedError
        There is no such type here.
    """
    if given in FLOATS:
        return TensorSpec(number_format=FLOATS[given], symmetric=symmetric)
    if given not in INTEGERS or INTEGERS[given][0] > 16:
        allowed = [kind for kind in (*INTEGERS, *FLOATS) if INTEGERS.get(kind, (0,))[0] <= 16]
        raise UnsupportedError(
            f"{what} is {given!r}, but must be one of {', '.join(map(str, allowed))}"
        )
    bits, signed = INTEGERS[given]
    return TensorSpec(bits=bits, signed=signed or symmetric, symmetric=symmetric)


def is_unsigned(given: enum.Enum) -> bool:
    """Return whether a type is one of unsigned integers."""
    return given in INTEGERS and not INTEGERS[given][1]
