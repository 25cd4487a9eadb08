# SPDX-License-Identifier: Apache-2.0
"""All configurations of a search space: each choice of one value for each name."""

import copy
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from onnxruntime.quantization import CalibrationMethod

from opendpu_arch.errors import UnsupportedError
from quark.onnx.quantization.config.quantization_config import QuantizationConfig

EXTRA, FINETUNE = "extra_options", "FastFinetune"

Chosen = dict[str, Any]
"""One value by name, in ``extra_options`` and its ``FastFinetune`` likewise."""


def configurations(space: Mapping[str, Any], base: QuantizationConfig) -> list[QuantizationConfig]:
    """Return the configurations of a space that differ, in the order of its values.

    What a choice does not make use of is left out of it: a percentile without the method, settings
    of finetuning without finetuning.

    Parameters
    ----------
    space
        Lists of values by name of a field; ``extra_options`` and in it ``FastFinetune`` are such
        spaces in turn.
    base
        Has the values that the space does not name.

    Raises
    ------
    UnsupportedError
        There is no such field, or its values are no list.
    """
    found: list[QuantizationConfig] = []
    seen: list[Chosen] = []
    for chosen in _choices(space, ""):
        used = _used(chosen, base)
        if used in seen:
            continue
        seen.append(used)
        made = copy.deepcopy(base)
        extra = used.pop(EXTRA, {})
        for name, value in used.items():
            setattr(made, name, value)
        made.extra_options = {**made.extra_options, **extra}
        found.append(made)
        used[EXTRA] = extra
    return found


def _choices(space: Mapping[str, Any], where: str) -> Iterator[Chosen]:
    """Yield all choices of a space and of the spaces in it."""
    names, values = [], []
    for name, value in space.items():
        inner = {"": EXTRA, EXTRA: FINETUNE}.get(where)
        if name == inner and isinstance(value, Mapping):
            values.append(list(_choices(value, name)))
        elif not isinstance(value, list | tuple):
            raise UnsupportedError(f"search space: {name} is {value!r}, but must be a list")
        elif not where and not hasattr(QuantizationConfig(), name):
            raise UnsupportedError(f"search space: a configuration has nothing called {name!r}")
        else:
            values.append(list(value))
        names.append(name)
    for some in itertools.product(*values):
        yield dict(zip(names, some, strict=True))


def _used(chosen: Chosen, base: QuantizationConfig) -> Chosen:
    """Return a choice without what has no effect in it."""

    def get(name: str) -> Any:
        return chosen.get(name, getattr(base, name))

    used = dict(chosen)
    if EXTRA not in used:
        return used
    extra = dict(used[EXTRA])
    method = get("calibrate_method")
    averaged = method == CalibrationMethod.MinMax and extra.get("CalibMovingAverage")
    drop = {
        "Percentile": method != CalibrationMethod.Percentile,
        "CalibMovingAverage": method != CalibrationMethod.MinMax,
        "CalibMovingAverageConstant": not averaged,
        "SmoothAlpha": not get("include_sq"),
        FINETUNE: not get("include_fast_ft"),
    }
    used[EXTRA] = {name: value for name, value in extra.items() if not drop.get(name)}
    return used
