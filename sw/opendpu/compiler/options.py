# SPDX-License-Identifier: Apache-2.0
"""Extra options of a compilation, in the form of the guide's ``--options``.

Each is honoured or refused; none is ignored.
"""

import ast
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opendpu.compiler.passes import chosen
from opendpu_arch import inputs
from opendpu_arch.errors import UnsupportedError

ONLY_INPUT = ""
"""Stands for the name of a graph's only input."""
LONGEST_SHOWN = 200
"""Characters of a user's text that an error repeats."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may ask of a compilation."""

    input_shape: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    """Shapes by input, as the model has them; :data:`ONLY_INPUT` stands for the only one."""
    output_ops: tuple[str, ...] = ()
    """Ops whose results are the outputs, instead of the graph's own."""
    plugins: tuple[str, ...] = ()
    """Modules or ``.py`` files with a ``get_plugin`` function, in the order they run."""
    prefetch: bool = True
    """Load ahead across layers."""
    hd_opt: bool = True
    """Cut large feature maps into stripes."""
    reserve_const_data: bool = False
    """Keep the values of constants in the ops of DPU subgraphs too."""
    least_ops: int = 0
    """Parts for the DPU with so many operators or fewer stay on the CPU; 0 for no limit."""
    dump: frozenset[str] = frozenset()
    """Passes whose results are written."""
    dump_dir: str = "dump"
    """Folder for them."""

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "Options":
        """Return the options in texts: JSON, ``'key': 'value'`` or ``key=value``; the last wins.

        Raises
        ------
        UnsupportedError
            A text has none of these forms, an option is unknown, or has a value it cannot have.
        """
        values: dict[str, Any] = {}
        for text in texts:
            for key, value in _pairs(text).items():
                if key in _WITHOUT_EFFECT:
                    continue
                if key not in _READERS:
                    raise UnsupportedError(
                        f"option {key!r} is unknown; known: {', '.join(_READERS)}",
                        code="XCOM_ITEM_UNDEFINED",
                    )
                values[key] = _READERS[key](key, value)
        return cls(**values)

    def with_input_shapes(self, texts: Iterable[str]) -> "Options":
        """Return the options with shapes in texts ``NAME=1,3,224,224`` too; the last wins.

        Raises
        ------
        UnsupportedError
            A text has another form.
        """
        shapes = dict(self.input_shape)
        for text in texts:
            name, equals, dims = text.rpartition("=")
            shapes[name if equals else ONLY_INPUT] = _shape("input_shape", text, dims)
        return dataclasses.replace(self, input_shape=shapes)


def _pairs(text: str) -> Mapping[str, Any]:
    """Return the options in one text by name."""
    text = text.strip()
    if "=" in text and not text.startswith(("{", '"', "'")):
        key, _, value = text.partition("=")
        return {key.strip(): value.strip()}
    braced = text if text.startswith("{") else f"{{{text}}}"
    for read in (inputs.json_value, ast.literal_eval):
        try:
            found = read(braced)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
        if isinstance(found, dict) and all(isinstance(key, str) for key in found):
            return found
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
    raise UnsupportedError(
        f"options are {shown!r}, but must be JSON such as "
        '\'{"output_ops": "a,b"}\', or key=value',
        code="XCOM_STR_PARSE_FAILED",
    )


def _refuse(key: str, value: Any, allowed: str) -> UnsupportedError:
    return UnsupportedError(
        f"option {key!r} is {value!r}, but must be {allowed}", code="XCOM_USER_INVALID_CMD_PARAM"
    )


def _names(key: str, value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not all(isinstance(p, str) for p in parts):
        raise _refuse(key, value, "names separated by commas")
    names = tuple(part.strip() for part in parts)
    if not names or not all(names):
        raise _refuse(key, value, "names separated by commas")
    return names


def _flag(key: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise _refuse(key, value, "true or false")
    return text == "true"


def _always(why: str) -> Callable[[str, Any], bool]:
    """Return the reader of an option that cannot be turned off."""

    def read(key: str, value: Any) -> bool:
        if not _flag(key, value):
            raise _refuse(key, value, f"true: {why}")
        return True

    return read


def _shapes(key: str, value: Any) -> dict[str, tuple[int, ...]]:
    """Read ``1,224,224,3``, or ``a:1,224,224,3;b:1,10``, or an object with shapes by name."""
    if isinstance(value, Mapping):
        return {str(name): _shape(key, value, one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return {ONLY_INPUT: _shape(key, value, value)}
    if not isinstance(value, str):
        raise _refuse(key, value, "such as '1,224,224,3' or 'a:1,224,224,3;b:1,10'")
    found = {}
    for entry in value.split(";"):
        name, _, dims = entry.rpartition(":")
        found[name.strip()] = _shape(key, value, dims)
    if ONLY_INPUT in found and len(found) > 1:
        raise _refuse(key, value, "one shape, or a name in front of each: 'a:1,8,8,3;b:1,10'")
    return found


def _shape(key: str, value: Any, dims: Any) -> tuple[int, ...]:
    parts = dims.split(",") if isinstance(dims, str) else dims
    try:
        shape = tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        shape = ()
    if not shape or min(shape) < 1:
        raise _refuse(key, value, "positive numbers separated by commas, such as '1,224,224,3'")
    return shape


def _passes(key: str, value: Any) -> frozenset[str]:
    return chosen(_names(key, value))


def _count(key: str, value: Any) -> int:
    try:
        found = int(value)
    except (TypeError, ValueError):
        found = -1
    if found < 0 or isinstance(value, float):
        raise _refuse(key, value, "an integer of at least 0")
    return found


def _folder(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _refuse(key, value, "the name of a folder")
    return value


_WITHOUT_EFFECT = ("mode", "save_kernel")
"""What scripts give ``vai_c_tensorflow``: how DPUs before ISA1 were compiled for."""

_READERS: dict[str, Callable[[str, Any], Any]] = {
    "input_shape": _shapes,
    "output_ops": _names,
    "plugins": _names,
    "prefetch": _always("programs always load ahead across layers"),
    "hd_opt": _always("feature maps of every size are cut by what costs least"),
    "reserve_const_data": _flag,
    "least_ops": _count,
    "dump": _passes,
    "dump_dir": _folder,
}
