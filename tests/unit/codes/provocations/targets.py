# SPDX-License-Identifier: Apache-2.0
"""Names, fingerprints and files that are no target."""

import dataclasses
import pathlib

from opendpu import api
from opendpu_arch.target import Target
from provocations.registry import gives

B512 = Target.from_name("B512")


@gives("TARGET_FACTORY_UNREGISTERED_TARGET")
def unknown_name(folder: pathlib.Path) -> None:
    Target.from_name("B4097")


@gives("TARGET_FACTORY_PARSE_TARGET_FAIL")
def no_number(folder: pathlib.Path) -> None:
    Target.from_name("0xdpu")


@gives("TARGET_FACTORY_PARSE_TARGET_FAIL")
def no_json(folder: pathlib.Path) -> None:
    (folder / "arch.json").write_text("{")
    api.find_target(str(folder / "arch.json"))


@gives("TARGET_FACTORY_PARSE_TARGET_FAIL")
def no_entries(folder: pathlib.Path) -> None:
    Target.from_arch_json({"dpu": "B512"})


@gives("TARGET_FACTORY_INVALID_TYPE")
def another_dpu(folder: pathlib.Path) -> None:
    Target.from_name("0x603000b16013831")


@gives("TARGET_FACTORY_INVALID_ISA_VERSION")
def another_isa(folder: pathlib.Path) -> None:
    Target.from_name("0x1000020f6014407")


@gives("TARGET_FACTORY_INVALID_ARCH")
def no_architecture(folder: pathlib.Path) -> None:
    dataclasses.replace(B512, arch=12)


@gives("TARGET_FACTORY_INVALID_FEATURE_CODE")
def no_banks(folder: pathlib.Path) -> None:
    dataclasses.replace(B512, bank_groups=0)


@gives("TARGET_FACTORY_INVALID_FEATURE_CODE")
def entries_that_disagree(folder: pathlib.Path) -> None:
    Target.from_arch_json({"target": "B4096", "fingerprint": f"{B512.fingerprint:#x}"})
