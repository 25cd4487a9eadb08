# SPDX-License-Identifier: Apache-2.0
"""Mutated ONNX files compile or are refused with one clear error; nothing else may happen."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

from onnx_bases import BASES
from onnx_fuzz import COMPILED, REFUSED, ends
from onnx_mutations import mutated

pytestmark = pytest.mark.system


def findings(seed: int, count: int) -> str:
    """Compile mutated models; return a line for each that ended as none may."""
    print(f"python tests/system/onnx_fuzz.py --seed {seed} --count {count}")
    found = list(ends(seed, count))
    assert [end.index for end in found] == list(range(count))
    kinds = {end.kind for end in found}
    assert {COMPILED, REFUSED} <= kinds, "mutations are neither all harmless nor all deadly"
    return "\n".join(f"{e.index}: {e.model}: {e.kind}: {e.text}" for e in found if not e.is_right)


def test_some_mutations() -> None:
    assert findings(seed=0, count=200) == ""


@pytest.mark.slow
def test_a_campaign_of_mutations() -> None:
    assert findings(seed=1, count=10_000) == ""


@pytest.mark.parametrize("make", BASES)
def test_bases_compile_and_a_seed_repeats_its_mutations(make, tmp_path: pathlib.Path) -> None:
    from opendpu import api

    base = make()
    (tmp_path / "m.onnx").write_bytes(base.SerializeToString())
    dims = [dim.dim_value for dim in base.graph.input[0].type.tensor_type.shape.dim]
    samples = {"x": np.ones((4, *dims[1:]), np.float32)}
    calibration = None if base.graph.name == "quantized" else samples
    report = api.compile_onnx(
        tmp_path / "m.onnx", calibration=calibration, target="B64", output=tmp_path / "o.xmodel"
    )
    assert any(part.device == "DPU" for part in report.subgraphs)
    drawn = [[mutated(np.random.default_rng([0, i]), base) for i in range(40)] for _ in range(2)]
    assert drawn[0] == drawn[1]
    same = base.SerializeToString()
    assert sum(data != same for data, _ in drawn[0]) >= 36
    assert len({done for _, done in drawn[0]}) >= 30
