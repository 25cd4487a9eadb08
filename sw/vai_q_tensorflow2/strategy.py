# SPDX-License-Identifier: Apache-2.0
"""Quantize strategies: the guide's names and JSON, and what they mean for our quantizer."""

import copy
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from opendpu.quantize.config import FinetuneConfig, QuantizeConfig
from opendpu.quantize.tensor_spec import Override, TensorSpec
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError
from vai_q_tensorflow2 import layer_types

STRATEGIES = ("pof2s", "pof2s_tqt", "fs", "fsx", "bfp")
_SPELLINGS = {
    "pow2s": "pof2s", "pow2s_tqt": "pof2s_tqt", "8bit": "pof2s", "8bit_tqt": "pof2s_tqt",
}  # fmt: skip
"""Other names in the guide, and those before Vitis AI 2.5."""
ROLES = {"input": "input", "weight": "weights", "bias": "bias", "activation": "activation"}
"""The guide's names of roles, and ours."""
_METHODS = {0: "nonoverflow", 1: "minmse", 2: "entropy", 3: "percentile"}
_FLOAT_METHODS = {0: "max", 1: "mse", 2: "entropy", 3: "percentile"}
_ROUNDINGS = {0: "half_even", 1: "half_up", 2: "half_away"}
_DATATYPES = {"float16": "float16", "bfloat16": "bfloat16", "float32": "float32"}

_OPTIMIZE = {
    "separate_conv_act": True, "fold_conv_bn": True, "convert_bn_to_dwconv": True,
    "convert_sigmoid_to_hard_sigmoid": True, "convert_relu_to_relu6": False,
    "include_cle": True, "cle_steps": 5, "cle_to_relu6": False,
}  # fmt: skip
_QUANTIZE: dict[str, Any] = {
    "input_layers": [], "output_layers": [], "ignore_layers": [], "layer_config": {},
    "quantize_with_xcompiler": True, "convert_to_fs_quantize_strategy": False,
}  # fmt: skip
_REFINE = {"include_fast_ft": False, "fast_ft_epochs": 10}
_FINALIZE = {
    "output_format": "", "onnx_opset_version": 11, "output_dir": "./quantize_results",
    "convert_datatype": None,
}  # fmt: skip
SECTIONS = ("pipeline_config", "quantize_registry_config")
"""What the names of sections end with."""
_TENSOR = {
    "bit": 8, "method": 1, "method_percentile": 99.9999, "symmetry": True, "per_channel": False,
    "round_mode": 1, "unsigned": False,
}  # fmt: skip
_OLD = {
    "fold_bn": "convert_bn_to_dwconv", "replace_sigmoid": "convert_sigmoid_to_hard_sigmoid",
    "replace_relu6": "convert_relu_to_relu6", "forced_cle": "cle_to_relu6",
    "convert_relu6_to_relu": "convert_relu_to_relu6",
}  # fmt: skip
"""Names before Vitis AI 2.5, and one that the guide has the other way round."""
_WITHOUT_EFFECT = ("separate_conv_act", "fold_conv_bn", "convert_bn_to_dwconv", "cle_steps",
                   "cle_to_relu6", "quantize_with_xcompiler")  # fmt: skip
"""What our quantizer always does, or finds itself."""
_AMDS = (
    "remove_dropout", "convert_tf_op_to_keras", "cle_balance_method", "cle_weight_threshold",
    "train_with_bn", "separable_conv", "convert_hard_sigmoid_to_dpu_version",
    "convert_average_pooling2d_to_dpu_version", "convert_leaky_relu_to_dpu_version",
    "freeze_bn_delay", "adjust_dpu_sigmoid", "adjust_dpu_shift_cut", "adjust_dpu_shift_bias",
    "adjust_dpu_shift_bias_leakyrelu", "adjust_dpu_shift_read", "adjust_dpu_shift_write",
    "adjust_dpu_shift_swish", "align_concat", "align_pool", "include_bias_corr",
    "use_framework_quant", "custom_layer_type",
)  # fmt: skip
"""Settings in the files of AMD's strategies that the guide does not name: what they switch is
always done here where the DPU needs it (shifts, averages, slopes), or there is nothing to switch
(dropouts are not part of a graph)."""


def default_strategy(name: str) -> dict[str, Any]:
    """Return a built-in strategy in the guide's structure.

    Raises
    ------
    UnsupportedError
        There is no such strategy.
    """
    name = _SPELLINGS.get(name, name)
    if name not in STRATEGIES:
        raise UnsupportedError(
            f"quantize_strategy {name!r} is unknown; choose one of {', '.join(STRATEGIES)}"
        )
    registry: dict[str, Any] = {"scale": "float" if name in ("fs", "fsx") else "power_of_two"}
    for role in ROLES:
        registry |= {f"{role}_{key}": value for key, value in _TENSOR.items()}
    registry |= {"input_method": 0, "bias_method": 0}
    registry |= {"weight_round_mode": 0, "bias_round_mode": 0}
    registry["quantize_bias"] = registry["quantize_activation"] = name != "fs"
    registry["data_format"] = "bfp" if name == "bfp" else "int"
    registry["layer_quantize_config"] = []
    return {
        "pipeline_config": {
            "optimize_pipeline_config": dict(_OPTIMIZE),
            "quantize_pipeline_config": copy.deepcopy(_QUANTIZE),
            "refine_pipeline_config": dict(_REFINE),
            "finalize_pipeline_config": dict(_FINALIZE),
        },
        "quantize_registry_config": registry,
        "train_scales": name == "pof2s_tqt",
    }


def updated(strategy: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a strategy with other values: in its own structure, or keys alone.

    Raises
    ------
    UnsupportedError
        A key that no strategy has.
    """
    made = copy.deepcopy(dict(strategy))
    sections = [*made["pipeline_config"].values(), made["quantize_registry_config"]]
    for key, value in _flat(changes).items():
        name = _OLD.get(key, key)
        if name in _AMDS:
            continue
        owner = next((section for section in sections if name in section), None)
        if owner is None:
            known = sorted(key for section in sections for key in section)
            raise UnsupportedError(
                f"{key!r} is no setting of a quantize strategy; there are {', '.join(known)}"
            )
        owner[name] = value
    return made


def _flat(changes: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in changes.items():
        if key == "input_quantize_config":
            found |= {"input_layers": value["input_layers"]} if value.get("input_layers") else {}
            found |= layer_types.changed(value.get("input_quantizer", {}), "input")
        elif key == "user_quantize_config":
            found |= {name: one for name, one in value.items() if one not in (None, [])}
        elif key.endswith(SECTIONS) and isinstance(value, Mapping):
            found |= _flat(value)
        else:
            found[key] = value
    return found


def read(source: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return a strategy in a JSON file, or as it is.

    Raises
    ------
    UnsupportedError
        The file cannot be read.
    """
    if isinstance(source, Mapping):
        return dict(source)
    try:
        found = json.loads(pathlib.Path(source).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnsupportedError(f"quantize strategy {source} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise UnsupportedError(f"quantize strategy {source} is no JSON object")
    return found


def write(
    strategy: Mapping[str, Any], path: str | os.PathLike[str], *, verbose: int = 0
) -> None:  # fmt: skip
    """Write a strategy as JSON; with ``verbose`` below 2 only what the guide's table lists."""
    shown = {key: strategy[key] for key in ("pipeline_config", "quantize_registry_config")}
    if verbose < 2:
        registry = shown["quantize_registry_config"]
        hidden = ("scale", "quantize_bias", "quantize_activation", "data_format")
        shown["quantize_registry_config"] = {
            key: value for key, value in registry.items() if key not in hidden
        }
    outputs.write(path, json.dumps(shown, indent=4) + "\n")


def configuration(
    strategy: Mapping[str, Any], layers: Sequence[str],
    classes: Mapping[str, Sequence[str]] | None = None,
) -> QuantizeConfig:  # fmt: skip
    """Return what a strategy means for our quantizer.

    Parameters
    ----------
    strategy
        As of :func:`updated`.
    layers
        Names of layers that stay in float.
    classes
        Names of all layers by class, for ``layer_quantize_config``.

    Raises
    ------
    UnsupportedError
        Values that are not allowed, or exclude each other.
    """
    pipeline, registry = strategy["pipeline_config"], strategy["quantize_registry_config"]
    optimize, refine = pipeline["optimize_pipeline_config"], pipeline["refine_pipeline_config"]
    wanted = pipeline["finalize_pipeline_config"]["convert_datatype"]
    if pipeline["quantize_pipeline_config"]["convert_to_fs_quantize_strategy"]:
        registry = {**registry, "scale": "float"}
    specs = {ours: _spec(registry, role) for role, ours in ROLES.items()}
    if wanted:
        if wanted not in _DATATYPES:
            raise UnsupportedError(
                f"convert_datatype is {wanted!r}, but must be one of {', '.join(_DATATYPES)}"
            )
        specs = dict.fromkeys(specs, TensorSpec(number_format=_DATATYPES[wanted]))
    elif registry["data_format"] != "int":
        specs = dict.fromkeys(specs, _block_format(registry))
    none = TensorSpec(number_format="float32")
    kept = Override(
        names=tuple(pattern for name in layers for pattern in _patterns(name)),
        input=none, weights=none, bias=none, activation=none,
    )  # fmt: skip
    patterns = {
        kind: [pattern for name in names for pattern in _patterns(name)]
        for kind, names in (classes or {}).items()
    }
    by_type = layer_types.rules(registry["layer_quantize_config"], registry, patterns, _spec)
    finetune = None
    if refine["include_fast_ft"]:
        finetune = FinetuneConfig(iterations=100 * int(refine["fast_ft_epochs"]))
    return QuantizeConfig(
        input=specs["input"], weights=specs["weights"], bias=specs["bias"],
        activation=specs["activation"],
        overrides=(
            *((kept,) if layers else ()), *_rules(pipeline["quantize_pipeline_config"]), *by_type,
        ),
        cross_layer=bool(optimize["include_cle"]),
        activation_substitution="hard" if optimize["convert_sigmoid_to_hard_sigmoid"] else "none",
        relu6_to_relu=bool(optimize["convert_relu_to_relu6"]), finetune=finetune,
    )  # fmt: skip


def needs_data(config: QuantizeConfig) -> bool:
    """Return whether a configuration has scales, which calibration chooses."""
    return any(spec.number_format == "int" for _, spec in config.specs())


def _rules(section: Mapping[str, Any]) -> tuple[Override, ...]:
    """Return the number formats of single layers, ``layer_config={"dense": "bfloat16"}``."""
    found = []
    for layer, form in section["layer_config"].items():
        if form not in _DATATYPES:
            raise UnsupportedError(
                f"layer_config of {layer!r} is {form!r}, but must be one of {', '.join(_DATATYPES)}"
            )
        spec = TensorSpec(number_format=_DATATYPES[form])
        found.append(Override(names=_patterns(layer), weights=spec, bias=spec, activation=spec))
    return tuple(found)


def _block_format(registry: Mapping[str, Any]) -> TensorSpec:
    """Return block floating point, as ``quantize_strategy="bfp"`` with ``data_format`` says it."""
    wanted, widths = registry["data_format"], {registry["input_bit"], registry["weight_bit"]}
    if wanted == "bfp" and not widths <= {8, 16}:  # 8 is the default of integers
        raise UnsupportedError(
            f"data_format is 'bfp' with {', '.join(map(str, sorted(widths)))} bits, but there are "
            "blocks of 16 bits only"
        )
    formats = {"bfp": "bfp16", "bf16": "bfloat16", "fp32": "float32", "mx6": "mx6", "mx9": "mx9"}
    if wanted not in formats:
        raise UnsupportedError(
            f"data_format is {wanted!r}, but must be one of {', '.join(formats)}"
        )
    return TensorSpec(number_format=formats[wanted])


def _patterns(layer: str) -> tuple[str, ...]:
    """Return patterns of the ops of a layer; TensorFlow numbers scopes that are opened again."""
    return layer, f"{layer}/*", f"{layer}_[0-9]/*", f"{layer}_[0-9][0-9]/*"


def _spec(registry: Mapping[str, Any], role: str) -> TensorSpec:
    def given(key: str) -> Any:
        return registry[f"{role}_{key}"]

    if not registry.get(f"quantize_{role}", True):
        return TensorSpec(number_format="float32")
    scale = registry["scale"]
    methods = _FLOAT_METHODS if scale == "float" else _METHODS
    for key, allowed in (("method", methods), ("round_mode", _ROUNDINGS)):
        if given(key) not in allowed:
            raise UnsupportedError(
                f"{role}_{key} is {given(key)!r}, but must be one of {', '.join(map(str, allowed))}"
            )
    # Integers of constants are rounded once; what the DPU rounds are results and inputs.
    rounding = _ROUNDINGS[given("round_mode")]
    return TensorSpec(
        bits=int(given("bit")), symmetric=bool(given("symmetry")), scale=scale,
        granularity="per_channel" if given("per_channel") else "per_tensor",
        method=methods[given("method")], rounding=rounding, signed=not given("unsigned"),
        percentile=float(given("method_percentile")),
    )  # fmt: skip
