# SPDX-License-Identifier: Apache-2.0
"""Quantizers of types of layers, as the JSON files of AMD's strategies list them.

``layer_quantize_config`` names a class of Keras, and for each tensor of it a quantizer with
parameters. AMD's own files say the same for every class; here only what somebody changed counts.
Layers that are not Keras's own stay in float anyway.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from opendpu.quantize.tensor_spec import Override, TensorSpec
from opendpu_arch.errors import UnsupportedError

PREFIXES = ("tensorflow.keras.layers.", "keras.layers.", "tf.keras.layers.")
LISTS = {
    "weight_quantizers": "weight", "bias_quantizers": "bias",
    "activation_quantizers": "activation", "output_quantizers": "activation",
}  # fmt: skip
"""By list of an entry, the role of its tensors."""
SETTINGS = {
    "bit_width": "bit", "method": "method", "method_percentile": "method_percentile",
    "round_mode": "round_mode", "symmetry": "symmetry", "per_channel": "per_channel",
    "unsigned": "unsigned",
}  # fmt: skip
"""Parameters of a quantizer, and what settings of a strategy call them."""
_CONSTANT = {"bit": 8, "method": 1, "round_mode": 0, "symmetry": True, "per_channel": False,
             "unsigned": False}  # fmt: skip
USUAL = {"weight": _CONSTANT, "bias": _CONSTANT, "activation": {**_CONSTANT, "round_mode": 1},
         "input": {**_CONSTANT, "method": 0, "round_mode": 1}}  # fmt: skip
"""What AMD's file for scales that are powers of two says of each role."""

Spec = Callable[[Mapping[str, Any], str], TensorSpec]
"""Gives the specification of a role for the settings of a strategy."""


def changed(quantizer: Mapping[str, Any], role: str) -> dict[str, Any]:
    """Return the settings of a quantizer that are others than usual, for a role by name."""
    params = quantizer.get("quantizer_params", {})
    found = {SETTINGS[key]: value for key, value in params.items() if key in SETTINGS}
    found = {k: v for k, v in found.items() if v is not None and USUAL[role].get(k) != v}
    settings = {f"{role}_{key}": value for key, value in found.items()}
    if _scale_of(quantizer) == "float":
        settings["scale"] = "float"
    return settings


def rules(
    entries: Sequence[Mapping[str, Any]], registry: Mapping[str, Any],
    layers: Mapping[str, Sequence[str]], spec: Spec,
) -> Iterator[Override]:  # fmt: skip
    """Yield what a list of entries changes.

    Parameters
    ----------
    entries
        The list.
    registry
        Settings that hold where an entry says nothing.
    layers
        Patterns of names of ops, by class of the layers that they come from.
    spec
        Makes specifications of settings.

    Raises
    ------
    UnsupportedError
        A class of Keras without a name, or a value that is not allowed.
    """
    for entry in entries:
        kind = str(entry.get("layer_type", ""))
        if not kind:
            raise UnsupportedError("an entry of layer_quantize_config has no layer_type")
        prefix = next((one for one in PREFIXES if kind.startswith(one)), None)
        patterns = layers.get(kind.rpartition(".")[2], ()) if prefix else ()
        found: dict[str, TensorSpec] = {}
        for key, role in LISTS.items():
            for quantizer in entry.get(key, ()):
                settings = changed(quantizer, role)
                if settings:
                    found[role] = spec({**registry, **settings}, role)
        if patterns and found:
            yield Override(
                names=tuple(patterns), weights=found.get("weight"), bias=found.get("bias"),
                activation=found.get("activation"),
            )  # fmt: skip


def _scale_of(quantizer: Mapping[str, Any]) -> str:
    """Return whether scales of a quantizer are powers of two, by its type."""
    kind = str(quantizer.get("quantizer_type", "Pof2SQuantizer"))
    return "power_of_two" if any(word in kind for word in ("Pof2S", "TQT")) else "float"
