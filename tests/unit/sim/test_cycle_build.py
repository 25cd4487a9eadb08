# SPDX-License-Identifier: Apache-2.0
"""The header that tells the cycle model the instruction formats."""

import ctypes
import pathlib
import re
import shutil

import numpy as np
import pytest

from opendpu_arch import cache, isa
from opendpu_sim.cycle import build
from opendpu_sim.cycle.build import isa_fields
from opendpu_sim.rtl import build as rtl_build

_STRUCT = re.compile(
    r"struct (\w+) \{\n  static constexpr uint8_t kOpcode = (\d+);\n(.*?)\};", re.S
)
_FIELD = re.compile(r"uint32_t (\w+)\(.*return w\[(\d)\] >> (\d+) & (0x[0-9a-f]+)u;")


def test_fields_are_cut_out_of_the_words_as_the_contract_says(rng: np.random.Generator) -> None:
    found = {name: (int(opcode), body) for name, opcode, body in _STRUCT.findall(isa_fields())}
    assert set(found) == {cls.__name__ for cls in isa.INSTRUCTIONS.values()}
    for opcode, cls in isa.INSTRUCTIONS.items():
        known, body = found[cls.__name__]
        assert known == opcode
        words = [int(w) for w in rng.integers(0, 2**32, cls.WORDS)]
        words[0] = words[0] & 0x0FFFFFFF | opcode << 28
        decoded = cls.decode(words)
        cut = {
            n: int(words[int(w)]) >> int(low) & int(m, 16) for n, w, low, m in _FIELD.findall(body)
        }
        assert cut == {
            f.name: int(getattr(decoded, f.name)) - f.minus_one for f in cls.bit_fields()
        }


def test_every_opcode_has_its_length_and_its_engine() -> None:
    text = isa_fields()
    words, engines = (
        [int(n) for n in re.search(rf"{name}\[16\] = \{{(.*)\}}", text)[1].split(",")]
        for name in ("kWords", "kEngine")
    )
    for opcode in range(16):
        cls = isa.INSTRUCTIONS.get(opcode)
        assert words[opcode] == (cls.WORDS if cls else 0)
        assert engines[opcode] == (cls.ENGINE if cls else 0)


@pytest.mark.parametrize("module", [build, rtl_build])
def test_every_source_has_a_say_in_the_path(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    """A changed, new or renamed header of either folder makes another library."""
    folder = tmp_path / "sources"
    shutil.copytree(module.HERE, folder)  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "HERE", folder)
    keys = {build.key("fields")}
    names = [path.name for path in folder.iterdir() if path.suffix == ".h"]
    assert names
    for name in names:
        with (folder / name).open("a") as file:
            file.write("// changed\n")
        keys.add(build.key("fields"))
    (folder / "new.h").write_text("")
    keys.add(build.key("fields"))
    (folder / "new.h").rename(folder / "renamed.h")
    keys.add(build.key("fields"))
    keys.add(build.key("other fields"))
    assert len(keys) == len(names) + 4


def test_a_damaged_library_is_built_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not even loaded: what is mapped from half a file ends the process."""
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path))
    path = build.library()
    whole = path.read_bytes()
    ctypes.CDLL(str(path))
    other = tmp_path / "copy"
    other.write_bytes(whole[: len(whole) // 2])
    other.replace(path)
    again = build.library()
    assert again == path
    assert ctypes.CDLL(str(shutil.copy(again, tmp_path / "again.so"))).odpu_cycle_load
