# SPDX-License-Identifier: Apache-2.0
"""Quantizing that is interrupted goes on with what is kept, and gives the same bytes."""

import pathlib

import numpy as np
import pytest

from opendpu.ir.digest import digest_of
from opendpu.quantize import Quantized, quantize_with_report
from opendpu.quantize import journal as journals
from opendpu.quantize.config import FinetuneConfig, QuantizeConfig
from opendpu.quantize.finetune.block_fit import BlockFit
from opendpu.quantize.tensor_spec import TensorSpec
from opendpu_arch import kept_lines
from opendpu_arch.errors import ModelFormatError, OutputError

from .float_nets import Net
from .test_finetune import samples

FINETUNE = FinetuneConfig(iterations=12, batch=8)


def network(seed: int = 0) -> Net:
    net = Net(seed)
    one = net.put("r1", "relu", [net.conv("c1", "x", 8)])
    two = net.put("r2", "relu", [net.conv("c2", one, 8, 1)])
    net.conv("c3", two, 4, 1)
    return net.done("c3")


def bits(number: int) -> QuantizeConfig:
    """Return settings with coarse weights, so that every correction has something to do."""
    return QuantizeConfig(weights=TensorSpec(bits=number))


def quantized(file: pathlib.Path | None, **options) -> Quantized:
    net = network(options.pop("seed_of_weights", 0))
    return quantize_with_report(net, samples(24), bits(4), journal=file, **options)


class Interruption:
    """Ends work like Ctrl-C when so many steps are kept."""

    def __init__(self, monkeypatch, after: int) -> None:
        add, self.left = kept_lines.KeptLines.add, after

        def counted(lines, value):
            add(lines, value)
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(kept_lines.KeptLines, "add", counted)


def equal(one: Quantized, other: Quantized) -> bool:
    assert one.report is not None
    assert other.report is not None
    same = one.report.notes == other.report.notes and one.report.lines() == other.report.lines()
    return same and digest_of(one.graph) == digest_of(other.graph)


NONOVERFLOW = TensorSpec(method="nonoverflow")


@pytest.mark.parametrize(
    ("seed", "options"),
    [(0, {"finetune": FINETUNE}), (1, {"activation": NONOVERFLOW, "input": NONOVERFLOW})],
    ids=["finetuned", "in two ways"],
)
def test_every_interruption_gives_the_same_bytes(tmp_path, monkeypatch, seed, options) -> None:
    if "finetune" in options:
        pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
    options = {**options, "seed_of_weights": seed}
    wanted = quantized(None, **options)
    file = tmp_path / "whole.journal"
    assert equal(quantized(file, **options), wanted)
    steps = len(file.read_bytes().splitlines()) - 1
    assert steps == (10 if "finetune" in options else 12)
    for after in range(1, steps):
        file = tmp_path / f"{after}.journal"
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            Interruption(patch, after)
            quantized(file, **options)
        with file.open("ab") as torn:
            torn.write(b'0123 {"step": "half a li')
        assert equal(quantized(file, **options), wanted), after
    assert equal(quantized(file, **options), wanted)
    assert len(file.read_bytes().splitlines()) - 1 == steps


def test_what_is_finished_is_not_done_again(tmp_path, monkeypatch) -> None:
    file = tmp_path / "j"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Interruption(patch, 4)
        quantized(file)
    done: list[str] = []
    run = BlockFit.run

    def told(fit, *args):
        done.append(fit.block.layer.name)
        return run(fit, *args)

    monkeypatch.setattr(BlockFit, "run", told)
    text = journals.summary(file)
    assert text.startswith("refining, correcting biases, correcting weights (2 layers)"), text
    quantized(file)
    assert done[0] == "c3"
    done.clear()
    quantized(file)
    assert not done


@pytest.mark.parametrize(
    ("options", "calib", "seed", "text"),
    [
        ({}, samples(24), 5, "is of another model"),
        ({}, samples(24, seed=2), 0, "is of other calibration data"),
        ({"bias_correction": False}, samples(24), 0,
         "is of other options: bias_correction was True, and is False now"),
        ({"finetune": FINETUNE}, samples(24), 0, "is of other options: finetune was None, and is"),
    ],
)  # fmt: skip
def test_journals_of_something_else(tmp_path, options, calib, seed, text) -> None:
    file = tmp_path / "j"
    quantized(file)
    before = file.read_bytes()
    with pytest.raises(ModelFormatError, match=text):
        quantize_with_report(network(seed), calib, bits(4), journal=file, **options)
    assert file.read_bytes() == before


def test_damage(tmp_path) -> None:
    file = tmp_path / "j"
    quantized(file)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"0", b"1", 1)
    file.write_bytes(b"".join(lines))
    with pytest.raises(ModelFormatError, match="j is damaged: line 3 is not what was written"):
        quantized(file)
    other = tmp_path / "model.onnx"
    for content in (b"\x08\x07onnx\n\x00\xff", b"no line at all"):
        other.write_bytes(content)
        with pytest.raises(ModelFormatError, match=r"model.onnx is no file of kept work"):
            quantized(other)
        assert other.read_bytes() == content
    with kept_lines.KeptLines(tmp_path / "k", {"evaluation": 1}):
        pass
    with pytest.raises(ModelFormatError, match="k is no journal of the quantizer"):
        quantized(tmp_path / "k")
    with pytest.raises(OutputError, match="is a directory"):
        quantized(tmp_path)


def test_arrays(rng) -> None:
    for array in (
        rng.standard_normal((3, 2)).astype(np.float32).T, np.float32(3).reshape(()),
        np.zeros((0, 4)), None,
    ):  # fmt: skip
        found = journals.unpacked(journals.packed(array))
        if array is None:
            assert found is None
        else:
            assert found.dtype == array.dtype
            assert found.shape == array.shape
            assert np.array_equal(found, array)
