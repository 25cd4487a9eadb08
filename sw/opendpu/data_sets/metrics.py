# SPDX-License-Identifier: Apache-2.0
"""Metrics whose counts of parts of a data set add up to those of the whole."""

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from opendpu.ir import Array
from opendpu_arch.errors import TensorError, UnsupportedError

METRICS = ("top1", "top5", "map", "miou", "custom")
VOID = 255
"""What maps of classes have where there is none."""
THRESHOLDS = tuple(float(x) for x in np.arange(0.5, 0.96, 0.05).round(2))
"""Overlaps over which ``map`` is the mean, as COCO's."""

Counts = dict[str, Any]


class Metric(Protocol):
    """A metric: counts of samples, and a figure of counts that were added up."""

    label: str
    """Name of the array with what is right."""

    def count(self, outputs: Sequence[Array], labels: Array) -> Counts:
        """Return JSON-ready counts of samples along the first axis."""
        ...

    def figure(self, counts: Sequence[Counts]) -> float:
        """Return the metric of all parts."""
        ...


class TopK:
    """Share of samples whose class is among the ``k`` highest scores.

    Scores are the first output with several numbers a sample. A network that has none may give
    the class itself, an integer.
    """

    label = "labels"

    def __init__(self, k: int) -> None:
        self.k = k

    def count(self, outputs: Sequence[Array], labels: Array) -> Counts:
        """Count the samples that are right."""
        best = self._best([output.reshape(len(labels), -1) for output in outputs])
        right = (best == _classes(labels)[:, None]).any(axis=1)
        return {"right": int(right.sum()), "samples": len(labels)}

    def figure(self, counts: Sequence[Counts]) -> float:
        """Return the share."""
        return float(sum(c["right"] for c in counts) / max(sum(c["samples"] for c in counts), 1))

    def _best(self, rows: Sequence[Array]) -> Array:
        """Return the classes that come first, for each sample."""
        for scores in rows:
            if scores.shape[1] > 1:
                return np.argsort(-scores, axis=1, kind="stable")[:, : self.k]
        for numbers in rows:
            if numbers.dtype.kind in "iu" and numbers.shape[1] == 1:
                return numbers
        raise TensorError(
            f"metric 'top{self.k}' takes an output with the scores of classes, or the class as an "
            "integer, but every output has one real number a sample: use metric 'custom'"
        )


def _classes(labels: Array) -> Array:
    """Return the class of each sample, of labels that are numbers, or one-hot.

    Raises
    ------
    TensorError
        They are neither.
    """
    found = np.asarray(labels)
    rows = found.reshape(len(found), -1)
    if found.dtype.kind in "iufb" and rows.shape[1] == 1 and np.all(rows == np.floor(rows)):
        return np.asarray(rows[:, 0])
    one_hot = found.dtype.kind in "iufb" and rows.shape[1] > 1 and bool(
        np.all((rows == 0) | (rows == 1)) and np.all(rows.sum(axis=1) == 1)
    )  # fmt: skip
    if not one_hot:
        raise TensorError(
            f"labels of {found.dtype} have shape {list(found.shape)}, but must be the number of a "
            "class for each sample, or one-hot"
        )
    return np.asarray(rows.argmax(axis=1))


class MeanIoU:
    """Mean over classes of intersection over union; classes along the output's last axis.

    An output of integers that has the size of the labels is the classes themselves; 255 is then
    no class. Negative labels count for nothing.
    """

    label = "labels"

    def count(self, outputs: Sequence[Array], labels: Array) -> Counts:
        """Count pixels by right class and found class."""
        scores, right = outputs[0], np.asarray(labels).reshape(-1)
        if scores.dtype.kind in "iu" and scores.size == right.size:
            found, right = scores.reshape(-1), np.where(right == VOID, -1, right)
            classes = int(max(scores.max(initial=0), right.max(initial=0))) + 1
        else:
            found, classes = scores.argmax(-1).reshape(-1), scores.shape[-1]
        if found.shape != right.shape:
            raise TensorError(
                f"labels have shape {np.shape(labels)}, but the output has {scores.shape}: for "
                "metric 'miou' they must be the output's without its last axis"
            )
        known = (right >= 0) & (right < classes)
        table = np.zeros((classes, classes), np.int64)
        np.add.at(table, (right[known], found[known]), 1)
        return {"table": table.tolist(), "samples": len(labels)}

    def figure(self, counts: Sequence[Counts]) -> float:
        """Return the mean over the classes that occur."""
        if not counts:
            return 0.0
        classes = max(len(c["table"]) for c in counts)
        table = np.zeros((classes, classes), np.int64)
        for part in counts:
            table[: len(part["table"]), : len(part["table"])] += np.array(part["table"])
        both = np.diag(table)
        union = table.sum(0) + table.sum(1) - both
        return float((both[union > 0] / union[union > 0]).mean()) if (union > 0).any() else 0.0


class MeanAP:
    """Mean average precision over classes and overlaps of 0.5 to 0.95.

    The output is ``[samples, boxes, 6]``: x1, y1, x2, y2, score, class; what scores 0 is no box.
    Labels are ``[samples, boxes, 5]``: x1, y1, x2, y2, class; a class below 0 is no box.
    """

    label = "labels"

    def count(self, outputs: Sequence[Array], labels: Array) -> Counts:
        """Match boxes, best score first, each with the free one that it overlaps most."""
        found, wanted = [], []
        for boxes, truth in zip(outputs[0], labels, strict=True):
            if boxes.ndim != 2 or boxes.shape[-1] != 6 or np.shape(truth)[-1:] != (5,):
                raise TensorError(
                    f"metric 'map' takes outputs [N, boxes, 6] and labels [N, boxes, 5], not "
                    f"{outputs[0].shape} and {np.shape(labels)}"
                )
            truth = np.asarray(truth)[np.asarray(truth)[:, 4] >= 0]
            wanted += truth[:, 4].astype(int).tolist()
            free = np.ones((len(THRESHOLDS), len(truth)), bool)
            for box in boxes[np.argsort(-boxes[:, 4], kind="stable")]:
                if box[4] <= 0:
                    break
                overlaps = np.where(truth[:, 4] == box[5], _overlaps(box, truth), 0.0)
                hits = []
                for row, least in enumerate(THRESHOLDS):
                    here = np.where(free[row], overlaps, 0.0)
                    best = int(here.argmax()) if len(here) else -1
                    hit = best >= 0 and bool(here[best] >= least)
                    if hit:
                        free[row, best] = False
                    hits.append(hit)
                found.append([int(box[5]), float(box[4]), hits])
        return {"found": found, "wanted": wanted, "samples": len(labels)}

    def figure(self, counts: Sequence[Counts]) -> float:
        """Return the mean of areas under curves of precision over recall."""
        found = [one for c in counts for one in c["found"]]
        wanted = [one for c in counts for one in c["wanted"]]
        areas = []
        for kind in sorted(set(wanted)):
            own = sorted((one for one in found if one[0] == kind), key=lambda one: -one[1])
            hits = np.array([one[2] for one in own], bool).reshape(-1, len(THRESHOLDS))
            areas += [_area(hits[:, row], wanted.count(kind)) for row in range(len(THRESHOLDS))]
        return float(np.mean(areas)) if areas else 0.0


class Custom:
    """Mean of what a function of the user's returns for each sample."""

    label = "labels"

    def __init__(self, name: str) -> None:
        module, _, attribute = name.partition(":")
        try:
            self._function = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise UnsupportedError(
                f"metric 'custom' is {name!r}, but must be 'module:function' that can be imported: "
                f"{error}"
            ) from None

    def count(self, outputs: Sequence[Array], labels: Array) -> Counts:
        """Add up ``function(outputs, labels)``, an array with a number for each sample."""
        values = np.asarray(self._function(list(outputs), labels), np.float64).reshape(-1)
        if len(values) != len(labels):
            raise TensorError(
                f"the function of metric 'custom' returns {len(values)} numbers for {len(labels)} "
                "samples"
            )
        return {"sum": float(values.sum()), "samples": len(labels)}

    def figure(self, counts: Sequence[Counts]) -> float:
        """Return the mean."""
        return float(sum(c["sum"] for c in counts) / max(sum(c["samples"] for c in counts), 1))


def metric_of(name: str, function: str = "") -> Metric:
    """Return a metric by name; ``function`` is that of ``custom``.

    Raises
    ------
    UnsupportedError
        There is no such metric, or function.
    """
    if name not in METRICS:
        raise UnsupportedError(f"no metric is called {name!r}; known: {', '.join(METRICS)}")
    if name == "custom":
        return Custom(function)
    made: Mapping[str, Metric] = {
        "top1": TopK(1), "top5": TopK(5), "miou": MeanIoU(), "map": MeanAP(),
    }  # fmt: skip
    return made[name]


def as_line(value: Mapping[str, Any]) -> str:
    """Return counts as one line of JSON."""
    return json.dumps(value, separators=(",", ":"))


def _overlaps(box: Array, truth: Array) -> Array:
    """Return intersection over union of a box with others."""
    low, high = np.maximum(box[:2], truth[:, :2]), np.minimum(box[2:4], truth[:, 2:4])
    inside = np.clip(high - low, 0, None).prod(axis=1)
    areas = (truth[:, 2:4] - truth[:, :2]).prod(axis=1)
    union = (box[2:4] - box[:2]).prod() + areas - inside
    return np.asarray(inside / np.maximum(union, 1e-12))


def _area(hits: Array, wanted: int) -> float:
    """Return the area under the curve, precision never rising with recall, at 101 recalls."""
    if not len(hits):
        return 0.0
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(right / wanted, np.linspace(0, 1, 101), side="left")
    return float(np.append(precision, 0.0)[places].mean())
