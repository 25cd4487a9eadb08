# SPDX-License-Identifier: Apache-2.0
"""Metrics: what is counted in parts is what the whole gives."""

import math

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, jaccard_score, top_k_accuracy_score

from opendpu.data_sets.metrics import THRESHOLDS, metric_of
from opendpu_arch.errors import TensorError, UnsupportedError


def in_parts(metric, outputs, labels, size):
    counts = [
        metric.count([outputs[i : i + size]], labels[i : i + size])
        for i in range(0, len(labels), size)
    ]
    return metric.figure(counts)


@pytest.mark.parametrize("size", [1, 3, 40])
def test_classification(rng, size):
    scores, labels = rng.normal(size=(40, 9)), rng.integers(9, size=40)
    assert in_parts(metric_of("top1"), scores, labels, size) == accuracy_score(
        labels, scores.argmax(1)
    )
    assert in_parts(metric_of("top5"), scores, labels, size) == pytest.approx(
        top_k_accuracy_score(labels, scores, k=5, labels=range(9))
    )


def test_scores_need_not_be_the_first_output(rng):
    """As scikit-learn's converter writes them: the class, then a number for each."""
    scores, labels = rng.normal(size=(40, 9)), rng.integers(9, size=40)
    outputs = [scores.argmax(1)[:, None] + 100, scores]
    counts = metric_of("top1").count(outputs, labels)
    assert counts["right"] == (scores.argmax(1) == labels).sum()


@pytest.mark.parametrize("shape", [(40,), (40, 1)])
def test_a_network_may_give_the_class(rng, shape):
    found, labels = rng.integers(9, size=40), rng.integers(9, size=40)
    counts = metric_of("top1").count([found.reshape(shape)], labels)
    assert counts == {"right": (found == labels).sum(), "samples": 40}


def test_one_real_number_is_no_class(rng):
    with pytest.raises(TensorError, match="every output has one real number a sample"):
        metric_of("top1").count([rng.normal(size=(4, 1))], np.arange(4))


@pytest.mark.parametrize("size", [1, 4])
def test_segmentation_by_classes(rng, size):
    found, labels = rng.integers(3, size=(4, 5, 6, 1)), rng.integers(3, size=(4, 5, 6))
    void = rng.random(labels.shape) < 0.2
    got = in_parts(metric_of("miou"), found, np.where(void, 255, labels), size)
    assert got == pytest.approx(jaccard_score(labels[~void], found[..., 0][~void], average="macro"))


@pytest.mark.parametrize("size", [1, 4])
def test_segmentation(rng, size):
    scores, labels = rng.normal(size=(4, 5, 6, 3)), rng.integers(3, size=(4, 5, 6))
    found = in_parts(metric_of("miou"), scores, labels, size)
    wanted = jaccard_score(labels.ravel(), scores.argmax(-1).ravel(), average="macro")
    assert found == pytest.approx(wanted)
    with pytest.raises(TensorError, match="must be the output's without its last axis"):
        metric_of("miou").count([scores], labels[:, 1:])


def test_detection():
    """One class: a right box, a wrong one above it, one that overlaps by 0.6, one not found."""
    truth = np.array([[[0, 0, 10, 10, 1], [20, 20, 30, 30, 1], [50, 50, 60, 60, 1]]], float)
    found = np.array([[
        [0, 0, 10, 10, 0.9, 1], [70, 70, 80, 80, 0.8, 1], [20, 20, 30, 26, 0.7, 1],
        [0, 0, 10, 10, 0.6, 2], [0, 0, 0, 0, 0, 0],
    ]])  # fmt: skip
    metric = metric_of("map")
    recall = np.linspace(0, 1, 101)
    low = np.where(recall <= 1 / 3, 1.0, np.where(recall <= 2 / 3, 2 / 3, 0.0)).mean()
    high = np.where(recall <= 1 / 3, 1.0, 0.0).mean()
    share = sum(one <= 0.6 for one in THRESHOLDS) / len(THRESHOLDS)
    assert metric.figure([metric.count([found], truth)]) == pytest.approx(
        share * low + (1 - share) * high
    )
    perfect = np.concatenate([truth[..., :4], np.ones((1, 3, 2))], -1)
    assert metric.figure([metric.count([perfect], truth)] * 2) == pytest.approx(1)
    with pytest.raises(TensorError, match=r"takes outputs \[N, boxes, 6\]"):
        metric.count([found[..., :5]], truth)


def test_a_function_of_the_user():
    metric = metric_of("custom", "numpy:subtract")
    with pytest.raises(TensorError, match="returns 6 numbers for 2 samples"):
        metric.count([np.zeros((2, 3))], np.zeros((2, 3)))
    with pytest.raises(UnsupportedError, match="must be 'module:function' that can be imported"):
        metric_of("custom", "nothing_there:f")
    with pytest.raises(UnsupportedError, match="no metric is called 'top2'; known: top1, top5,"):
        metric_of("top2")
    assert math.isclose(metric_of("custom", "numpy:subtract").figure([{"sum": 3.0, "samples": 6}]),
                        0.5)  # fmt: skip
