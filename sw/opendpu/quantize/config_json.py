# SPDX-License-Identifier: Apache-2.0
"""The configuration of the guide's PyTorch quantizer, as JSON (UG1414, chapter 3).

Settings of a tensor come from the defaults, over these ``overall_quantize_config``, over these
``tensor_quantize_config``; a rule of ``layer_quantize_config`` replaces them for its layers. What
the guide leaves open: without a ``calib_statistic_method``, the modal scale is taken with method
``diffs`` and the largest one with the others, which the guide does not combine with ``modal``; and
for ``target_device`` DPU, a ``round_mode`` that is not said of activations themselves is
``half_up``, as the DPU rounds.
"""

import dataclasses
import glob
import os
from collections.abc import Collection, Mapping
from typing import Any

from opendpu.quantize.tensor_spec import ROLES, Override, TensorSpec
from opendpu_arch import inputs
from opendpu_arch.errors import ModelFormatError, UnsupportedError

CODE = "QUANTIZER_TORCH_QUANT_CONFIG"
"""The guide's code of everything that is wrong with a configuration."""

DEVICES = ("DPU", "CPU", "GPU")

_METHODS = {"maxmin": "max", "percentile": "percentile", "entropy": "entropy", "mse": "mse",
            "diffs": "diffs"}  # fmt: skip
_ROUNDINGS = {name: name for name in ("half_even", "half_up", "half_down", "std_round")}
_SCALES = {"float": "float", "poweroftwo": "power_of_two"}
_STATISTICS = {name: name for name in ("modal", "max", "mean", "median")}
_FORMATS = {name: name for name in ("int", "bfloat16", "float16", "float32")}

_FLAGS = {
    "convert_relu6_to_relu": False, "convert_silu_to_hswish": False, "include_cle": True,
    "include_bias_corr": True, "keep_first_last_layer_accuracy": False,
    "keep_add_layer_accuracy": False,
}  # fmt: skip
"""Switches of the whole model, with the guide's defaults."""

_DEFAULTS = {
    "datatype": "int", "bit_width": 8, "method": "diffs", "round_mode": "std_round",
    "symmetry": True, "per_channel": False, "signed": True, "narrow_range": False,
    "scale_type": "poweroftwo",
}  # fmt: skip
"""Settings of a tensor, with the guide's defaults; but for ``calib_statistic_method``."""

_SETTINGS = (*_DEFAULTS, "calib_statistic_method")
_SYNONYMS = {"data_type": "datatype", "overall_quantizer_config": "overall_quantize_config"}
"""Spellings that the guide has too."""
_WITHOUT_EFFECT = ("onnx_opset_version", "change_concat_input_fix", "change_pool_input_fix")
"""Keys of AMD's example files that the guide does not explain. Exports take the oldest version of
ONNX's operators that has what they need; inputs of concatenations and pools have the scales of
their results always."""
_TOP = (*_FLAGS, *_WITHOUT_EFFECT, "target_device", "quantizable_data_type",
        "overall_quantize_config", "tensor_quantize_config", "layer_quantize_config")  # fmt: skip
_LAYER = ("layer_type", "layer_name", "quantizable_data_type", "overall_quantize_config",
          "tensor_quantize_config")  # fmt: skip


def parse(source: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a configuration says, as fields of ``QuantizeConfig``.

    ``source`` is the path of a file, or its text.

    Raises
    ------
    ModelFormatError
        The file cannot be read, or is no JSON.
    UnsupportedError
        A key or value that the guide does not have, or two that exclude each other; with the
        guide's code.
    """
    given = _read(source)
    top = _object("the configuration", given, _TOP)
    flags = {key: _flag(key, top.get(key, default)) for key, default in _FLAGS.items()}
    for key in ("keep_first_last_layer_accuracy", "keep_add_layer_accuracy"):
        if flags[key]:
            raise _wrong(f"{key} is true, but the guide does not say what it does; leave it false")
    device = _choice("target_device", top.get("target_device", "DPU"), DEVICES)
    specs = _specs("the configuration", top, _DEFAULTS, device)
    rules = top.get("layer_quantize_config") or []
    if not isinstance(rules, list):
        raise _wrong("layer_quantize_config must be a list of objects")
    overrides = tuple(_override(index, rule, device) for index, rule in enumerate(rules))
    return {
        **specs, "overrides": overrides, "cross_layer": flags["include_cle"],
        "bias_correction": flags["include_bias_corr"],
        "relu6_to_relu": flags["convert_relu6_to_relu"],
        "activation_substitution": "hard" if flags["convert_silu_to_hswish"] else "none",
    }  # fmt: skip


def switches(source: str | os.PathLike[str]) -> frozenset[str]:
    """Return which switches of the whole model a configuration has, whatever their values are.

    Raises
    ------
    ModelFormatError
        The file cannot be read, or is no JSON.
    """
    return frozenset(_FLAGS).intersection(_object("the configuration", _read(source), _TOP))


def _read(source: str | os.PathLike[str]) -> Any:
    if isinstance(source, str) and source.lstrip().startswith("{"):
        name, text = "the configuration", source
    else:
        name = os.fspath(source)
        try:
            text = inputs.read_text(source)
        except (OSError, UnicodeDecodeError) as error:
            raise ModelFormatError(f"{name} cannot be read: {error}") from None
    try:
        return inputs.json_value(text)
    except ValueError as error:
        raise ModelFormatError(f"{name} is no JSON: {error}") from None


def _override(index: int, given: Any, device: str) -> Override:
    """Return the rule of a layer, by its type or its name."""
    where = f"layer_quantize_config[{index}]"
    rule = _object(where, given, _LAYER)
    kind, name = rule.get("layer_type"), rule.get("layer_name")
    if (kind is None) == (name is None):
        raise _wrong(f"{where} must have a layer_type or a layer_name, and the other one null")
    specs = _specs(where, rule, _DEFAULTS, device)
    if "input" not in rule.get("quantizable_data_type", ROLES):
        del specs["input"]  # an input of the network is no part of the layer
    return Override(
        kinds=() if kind is None else (_literal(where, kind),),
        names=() if name is None else (_literal(where, name),),
        **specs,
    )


def _literal(where: str, name: Any) -> str:
    """Return a pattern that only a name itself matches: brackets stand for themselves."""
    if not isinstance(name, str):
        raise _wrong(f"{where}: {name!r} must be a text")
    return glob.escape(name)


def _specs(
    where: str, given: Mapping[str, Any], defaults: Mapping[str, Any], device: str
) -> dict[str, Any]:
    """Return the specification of every role, of those that are not quantized too."""
    roles = given.get("quantizable_data_type", list(ROLES))
    if not isinstance(roles, list) or not set(map(str, roles)) <= set(ROLES):
        raise _wrong(f"{where}: quantizable_data_type must be a list of {', '.join(ROLES)}")
    overall = _object(
        f"{where}: overall_quantize_config", given.get("overall_quantize_config", {}), _SETTINGS
    )
    tensors = _object(
        f"{where}: tensor_quantize_config", given.get("tensor_quantize_config") or {}, ROLES
    )
    found = {}
    for role in ROLES:
        own = _object(f"{where}: {role}", tensors.get(role, {}), _SETTINGS)
        settings = {**defaults, **overall, **own}
        if device == "DPU" and role == "activation" and "round_mode" not in own:
            settings["round_mode"] = "half_up"
        spec = _spec(f"{where}: {role}", settings, device)
        if role not in roles:
            spec = dataclasses.replace(spec, number_format="float32")
        found[role] = spec
    return found


def _spec(where: str, given: Mapping[str, Any], device: str) -> TensorSpec:
    """Return the specification of one role; refuse what excludes each other."""
    method = _mapped(where, "method", given, _METHODS)
    statistic = "modal" if method == "diffs" else "max"
    if "calib_statistic_method" in given:
        statistic = _mapped(where, "calib_statistic_method", given, _STATISTICS)
    number_format = _mapped(where, "datatype", given, _FORMATS)
    symmetric = _flag(f"{where}: symmetry", given["symmetry"])
    if number_format == "int" and device != "DPU" and method != "diffs" and statistic == "modal":
        raise _wrong(f"{where}: method {given['method']!r} cannot have the modal scale of batches")
    if number_format == "int" and not symmetric and method in ("mse", "entropy"):
        raise _wrong(f"{where}: method {given['method']!r} needs symmetry true")
    bits = given["bit_width"]
    if not isinstance(bits, int) or isinstance(bits, bool):
        raise _wrong(f"{where}: bit_width is {bits!r}, but must be a whole number")
    per_channel = _flag(f"{where}: per_channel", given["per_channel"])
    words: dict[str, Any] = {
        "scale": _mapped(where, "scale_type", given, _SCALES),
        "rounding": _mapped(where, "round_mode", given, _ROUNDINGS),
        "signed": _flag(f"{where}: signed", given["signed"]),
        "narrow_range": _flag(f"{where}: narrow_range", given["narrow_range"]),
        "granularity": "per_channel" if per_channel else "per_tensor",
    }
    try:
        return TensorSpec(
            bits=bits, symmetric=symmetric, method=method, statistic=statistic,
            number_format=number_format, **words,
        )  # fmt: skip
    except UnsupportedError as error:
        raise _wrong(f"{where}: {error}") from None


def _object(where: str, given: Any, allowed: Collection[str]) -> dict[str, Any]:
    """Return a JSON object with spellings made one; refuse keys that there are not."""
    if not isinstance(given, Mapping):
        raise _wrong(f"{where} must be an object")
    found = {_SYNONYMS.get(str(key), str(key)): value for key, value in given.items()}
    unknown = [key for key in found if key not in allowed]
    if unknown:
        raise _wrong(f"{where} has no key {unknown[0]!r}; keys are: {', '.join(allowed)}")
    return found


def _mapped(where: str, key: str, given: Mapping[str, Any], words: Mapping[str, str]) -> str:
    word = str(given[key]).lower()
    return words[_choice(f"{where}: {key}", word, words)]


def _choice(what: str, given: Any, allowed: Collection[str]) -> str:
    if given not in allowed:
        raise _wrong(f"{what} is {given!r}, but must be one of {', '.join(allowed)}")
    return str(given)


def _flag(what: str, given: Any) -> bool:
    if not isinstance(given, bool):
        raise _wrong(f"{what} is {given!r}, but must be true or false")
    return given


def _wrong(text: str) -> UnsupportedError:
    return UnsupportedError(text, code=CODE)
