# SPDX-License-Identifier: Apache-2.0
"""Finished steps of quantizing a graph, kept in a file: an interrupted run goes on behind them.

What is kept are results: fix points, and constants that corrections and finetuning have changed.
Everything else, calibration above all, is computed again, which takes little beside these. A run
that goes on gives the same graph, to the bit, as one that was not interrupted.
"""

import base64
import collections
import contextlib
import dataclasses
import hashlib
import importlib.metadata
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from opendpu.ir import Array, Graph
from opendpu.ir.digest import digest_of
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.progress import silent
from opendpu.quantize.samples import PART_BYTES, Samples
from opendpu_arch import kept_lines
from opendpu_arch.errors import ModelFormatError

FORMAT = "opendpu quantization 1"
"""What the first line begins with."""

Path = str | os.PathLike[str]


class Journal:
    """Results of steps by name. One without a file keeps nothing.

    Parameters
    ----------
    lines
        The file.
    prefix
        What the names of steps begin with.
    """

    def __init__(self, lines: kept_lines.KeptLines | None = None, prefix: str = "") -> None:
        self._lines, self._prefix = lines, prefix
        self._known: dict[str, Any] = {}
        if lines is not None:
            self._known = {line["step"]: line for line in lines.lines[1:]}

    def part(self, name: str) -> "Journal":
        """Return the journal of a part, whose steps may be called as those of other parts."""
        return Journal(self._lines, f"{self._prefix}{name}/")

    def known(self, step: str) -> Any:
        """Return what a step gave in an earlier run; nothing if it was not finished."""
        return self._known.get(self._prefix + step)

    def keep(self, step: str, **result: Any) -> None:
        """Write what a step gave: what JSON holds, see :func:`packed` for arrays."""
        if self._lines is not None:
            self._lines.add({"step": self._prefix + step, **result})

    def changing(
        self, step: str, graph: Graph, work: Callable[[Callable[[str], None]], object],
        note: Callable[[str], None] = silent,
    ) -> None:  # fmt: skip
        """Change constants of a graph, in place, as ``work`` does, or as it did in an earlier run.

        ``work`` is given what it tells its notes to, which ``note`` is told in either case.
        """
        known = self.known(step)
        if known is None:
            before = {node.name: (node.value, node.type) for node in graph}
            notes: list[str] = []
            work(notes.append)
            if self._lines is not None:
                self.keep(step, notes=notes, constants=_changes(graph, before))
        else:
            notes = known["notes"]
            _apply(graph, known["constants"])
        for text in notes:
            note(text)

    def fix_points(
        self, step: str, find: Callable[..., dict[str, int]], note: Callable[[str], None],
        *given: Any,
    ) -> dict[str, int]:  # fmt: skip
        """Return the fix points that ``find(*given, note=…)`` returns, now or in an earlier run."""
        known = self.known(step)
        if known is None:
            notes: list[str] = []
            points = find(*given, note=notes.append)
            self.keep(step, notes=notes, points={name: int(p) for name, p in points.items()})
        else:
            notes, points = known["notes"], known["points"]
        for text in notes:
            note(text)
        return points


NOTHING = Journal()
"""The journal of a run that keeps nothing."""


@contextlib.contextmanager
def opened(
    path: Path | None, graph: Graph, samples: Samples, config: QuantizeConfig
) -> Iterator[Journal]:
    """Open the journal in a file, which is made if there is none; without a path, keep nothing.

    Raises
    ------
    ModelFormatError
        It is damaged, another kind of file, or of another model, other data or options.
    OutputError
        It cannot be written.
    """
    if path is None:
        yield NOTHING
        return
    own = _identity(graph, samples, config)
    with kept_lines.KeptLines(path, own) as lines:
        _check(path, lines.lines[0], own)
        yield Journal(lines)


def summary(path: Path) -> str:
    """Return in words what a journal has; nothing of one without steps, or that is no journal."""
    try:
        lines, _ = kept_lines.read(path)
    except ModelFormatError:
        return ""
    names = [line["step"].rpartition("/")[2] for line in lines[1:]]
    counts = collections.Counter(name.partition(": ")[0] for name in names)
    layers = {name.partition(": ")[0] for name in names if ": " in name}
    whole = {name for name in names if ": " not in name}
    return ", ".join(
        f"{name} ({count} layers)" if name in layers - whole else name
        for name, count in counts.items()
    )


def packed(array: Array | None) -> Any:
    """Return an array as JSON holds it."""
    if array is None:
        return None
    data = zlib.compress(np.ascontiguousarray(array).tobytes(), 1)  # a grid has few values
    text = base64.b64encode(data).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": text}


def unpacked(value: Any) -> Array | None:
    """Return what :func:`packed` was given."""
    if value is None:
        return None
    data = zlib.decompress(base64.b64decode(value["data"]))
    flat = np.frombuffer(data, np.dtype(value["dtype"]))
    return flat.reshape(value["shape"]).copy()


def _changes(graph: Graph, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return by op what constants are now, and the fractional bits of those whose scale is new."""
    found: dict[str, Any] = {}
    for node in graph:
        value, kind = before[node.name]
        if node.value is not value:
            found.setdefault(node.name, {})["value"] = packed(node.value)
        if node.type != kind:
            found.setdefault(node.name, {})["points"] = [int(p) for p in node.fix_points]
    return found


def _apply(graph: Graph, changes: Mapping[str, Any]) -> None:
    for name, change in changes.items():
        node = graph[name]
        if "value" in change:
            node.value = unpacked(change["value"])
        if "points" in change:
            found = node.quantization
            node.type = node.type.with_quantization(found.along(change["points"], found.axis))


def _identity(graph: Graph, samples: Samples, config: QuantizeConfig) -> dict[str, Any]:
    """Return what results depend on."""
    return {
        "format": FORMAT,
        "version": importlib.metadata.version("opendpu"),
        "model": digest_of(graph),
        "data": _digest(samples),
        "options": dict(_options(config)),
    }


def _digest(samples: Samples) -> str:
    found = hashlib.sha256(f"{samples.count}\n".encode())
    for name, array in samples.arrays.items():
        found.update(f"{name} {array.dtype.str} {array.shape} {samples.orders[name]}\n".encode())
        step = max(1, PART_BYTES // max(1, array[:1].nbytes))
        for start in range(0, array.shape[0], step):
            found.update(np.ascontiguousarray(array[start : start + step]).tobytes())
    return found.hexdigest()


def _options(config: QuantizeConfig) -> Iterator[tuple[str, str]]:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name == "finetune" and value is not None:
            for inner in dataclasses.fields(value):
                yield f"finetune.{inner.name}", repr(getattr(value, inner.name))
        elif field.name == "target" and value is not None:
            yield "target", f"{value.name} ({value.fingerprint})"
        else:
            yield field.name, repr(value)


def _check(path: Path, kept: Any, own: Mapping[str, Any]) -> None:
    """Refuse a journal of something else, and say of what."""
    name = os.fspath(path)
    if not isinstance(kept, dict) or kept.get("format") != FORMAT:
        raise ModelFormatError(f"{name} is no journal of the quantizer")
    for what in ("version", "model", "data"):
        if kept[what] != own[what]:
            text = {
                "version": f"OpenDPU {kept[what]}, not {own[what]}",
                "model": "another model",
                "data": "other calibration data",
            }[what]
            raise ModelFormatError(f"{name} is of {text}: remove it, or name another file")
    options, others = kept["options"], own["options"]
    for option in dict.fromkeys([*options, *others]):
        before, now = options.get(option, "not given"), others.get(option, "not given")
        if before != now:
            raise ModelFormatError(
                f"{name} is of other options: {option} was {before}, and is {now} now; remove it, "
                "or name another file"
            )
