# SPDX-License-Identifier: Apache-2.0
"""The generated pages: up to date in the tree, and --check notices when they are not."""

import importlib
import pathlib
import types

import pytest

from opendpu.compiler.constraints import CONSTRAINTS
from opendpu_arch import isa, legal, regs
from opendpu_arch.target import registered


@pytest.fixture
def gen_docs(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts"))
    return importlib.import_module("gen_docs")


def run(gen_docs: types.ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["gen_docs.py", *arguments])
    return int(gen_docs.main())


def test_the_pages_in_the_tree_are_up_to_date(
    gen_docs: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(gen_docs, monkeypatch, "--check") == 0


def test_check_fails_on_a_stale_page_and_writes_nothing(
    gen_docs: types.ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(gen_docs, "FOLDER", tmp_path)
    quick = {name: gen_docs.PAGES[name] for name in ("isa.md", "targets.md")}
    monkeypatch.setattr(gen_docs, "PAGES", quick)
    assert run(gen_docs, monkeypatch) == 0
    assert run(gen_docs, monkeypatch, "--check") == 0
    page = tmp_path / "isa.md"
    page.write_text(page.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
    capsys.readouterr()
    assert run(gen_docs, monkeypatch, "--check") == 1
    assert capsys.readouterr().out == "docs/reference/isa.md: not up to date\n"
    assert page.read_text(encoding="utf-8").endswith("more\n")


def test_nothing_of_the_contract_is_left_out(gen_docs: types.ModuleType) -> None:
    page = gen_docs.PAGES["isa.md"]()
    for cls in isa.INSTRUCTIONS.values():
        section = page.partition(f"## {cls.mnemonic()}\n")[2].partition("\n## ")[0]
        for f in cls.bit_fields():
            assert f"`{f.name}`" in (page if f.name in {"dpdon", "dpdby"} else section), f.name
    rules = gen_docs.PAGES["legality.md"]()
    assert all(f"`{rule.name}`" in rules for rule in legal.RULES)
    targets = gen_docs.PAGES["targets.md"]()
    assert all(f"{fingerprint:#x}" in targets for fingerprint in registered().values())
    registers = gen_docs.PAGES["registers.md"]()
    assert all(f"`{r.name}`" in registers for r in regs.REGISTERS)
    operators = gen_docs.PAGES["supported_operators.md"]()
    assert all(f"`{c.name}`" in operators for c in CONSTRAINTS)


def test_every_row_of_the_guides_table_is_there(gen_docs: types.ModuleType) -> None:
    """Names of Table 28; an operator that is not in the page would be neither DPU nor CPU."""
    page = gen_docs.PAGES["supported_operators.md"]()
    names = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    for name in (
        "conv2d", "depthwise-conv2d", "transposed-conv2d", "depthwise-transposed-conv2d",
        "max-pooling", "average-pooling", "eltwise sum", "eltwise prod", "concat", "reorg", "pad",
        "global pooling", "InnerProduct, Fully Connected, Matmul", "resize", "conv3d",
        "depthwise-conv3d", "transposed-conv3d", "depthwise-transposed-conv3d", "strided_slice",
        "correlation1d_elemwise", "correlation2d_elemwise", "cost_volume", "argmax",
        "reduction max", "transpose",
    ):  # fmt: skip
        assert names.count(name) == 1, name
    rows = [line for line in page.splitlines() if line.startswith("| conv2d |")]
    assert "`conv_kernel`" in rows[0]
    assert "`leaky-relu`, `relu`, `relu6`" in rows[0]
