# SPDX-License-Identifier: Apache-2.0
"""Targets: what one configuration of the DPU has, and its fingerprint."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any, Self

from opendpu_arch import inputs
from opendpu_arch.arch_files import target_of_path, why_unknown
from opendpu_arch.errors import TargetError
from opendpu_arch.extensions import Extension, extension, feature_bits, in_feature_code

TYPE = "DPUCZDX8G"
TYPE_CODE = 1
ISA_VERSION = 1
MAX_ADDRESS_REGISTERS = 8
"""Segments a program can address (``reg_id``)."""
CLOCK_MHZ = 300.0
"""Clock of the DPU on AMD's boards; cycles are told as times with it where nobody says another."""

ARCHITECTURES: tuple[tuple[int, int], ...] = (
    (4, 8),
    (4, 10),
    (8, 8),
    (4, 12),
    (8, 10),
    (8, 12),
    (8, 14),
    (8, 16),
    (4, 4),
    (2, 6),
    (2, 8),
    (2, 4),
)
"""(pixel parallel, channel parallel) by the ARCH index of the feature code."""

_UNCLAIMED = 0xFFF0_80FF_F0F0 & ~feature_bits(Extension)
"""Bits of the feature code that no option claims."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """One DPUCZDX8G ISA1 configuration; everything but ``name`` is in the fingerprint.

    Bank ids count up: image groups (``bank_groups`` times ``pixel_parallel`` banks), CONVW (one
    bank an output channel lane), DWCONVW, BIAS.
    """

    arch: int
    """Index into :data:`ARCHITECTURES`."""
    alu_pixel_parallel: int
    """Rows the misc engines work on."""
    bank_groups: int = 2
    """Image bank groups."""
    channel_augmentation: bool = True
    """LOAD can fold the kernel width into channels."""
    load_mean: bool = False
    """LOAD can subtract a mean."""
    conv_leaky_relu: bool = True
    """CONV has LeakyReLU."""
    alu_leaky_relu: bool = False
    """ALU has LeakyReLU as an activation."""
    save_argmax: bool = True
    """SAVE can write the argmax of a pixel."""
    log2_conv_write_parallel: int = 0
    """log2 of the rows CONV writes into one bank a cycle."""
    log2_alu_write_parallel: int = 0
    """The same for the misc engines."""
    reserved_features: int = 0x1_0000
    """Bits of the feature code that no option claims; bit 16 is set in every known image."""
    extensions: frozenset[Extension] = frozenset()
    """What it has beyond ISA1."""

    bank_depth: int = 2048
    """Words in a bank."""

    def __post_init__(self) -> None:
        """Check that the options describe a machine that can be built."""
        if not 0 <= self.arch < len(ARCHITECTURES):
            raise TargetError(
                f"ARCH index is {self.arch}, but must be in 0..{len(ARCHITECTURES) - 1}",
                code="TARGET_FACTORY_INVALID_ARCH",
            )
        if not 1 <= self.alu_pixel_parallel <= self.pixel_parallel:
            raise TargetError(
                f"ALU pixel parallel is {self.alu_pixel_parallel}, "
                f"but must be in 1..{self.pixel_parallel}",
                code="TARGET_FACTORY_INVALID_FEATURE_CODE",
            )
        if not 1 <= self.bank_groups <= 3:
            raise TargetError(
                f"image bank groups are {self.bank_groups}, but must be in 1..3",
                code="TARGET_FACTORY_INVALID_FEATURE_CODE",
            )
        for name in ("log2_conv_write_parallel", "log2_alu_write_parallel"):
            if not 0 <= getattr(self, name) <= 3:
                raise TargetError(
                    f"{name} is {getattr(self, name)}, but must be in 0..3",
                    code="TARGET_FACTORY_INVALID_FEATURE_CODE",
                )
        if self.reserved_features & ~_UNCLAIMED:
            raise TargetError(
                f"reserved_features is {self.reserved_features:#x}, "
                f"but must keep to the bits {_UNCLAIMED:#x}",
                code="TARGET_FACTORY_INVALID_FEATURE_CODE",
            )
        if self.bank_depth < 1 or self.bank_depth & (self.bank_depth - 1):
            raise TargetError(
                f"bank depth is {self.bank_depth}, but must be a power of two",
                code="TARGET_FACTORY_INVALID_FEATURE_CODE",
            )

    @functools.cached_property
    def pixel_parallel(self) -> int:
        """Output rows CONV makes at a time; also banks in a group."""
        return ARCHITECTURES[self.arch][0]

    @functools.cached_property
    def channel_parallel(self) -> int:
        """Channels in a bank word, and bytes in it."""
        return ARCHITECTURES[self.arch][1]

    @functools.cached_property
    def input_channel_parallel(self) -> int:
        """Input channels CONV takes at a time."""
        return self.channel_parallel

    @functools.cached_property
    def output_channel_parallel(self) -> int:
        """Output channels CONV makes at a time."""
        return self.channel_parallel

    @functools.cached_property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of the array in a cycle."""
        return self.pixel_parallel * self.channel_parallel**2

    @property
    def peak(self) -> int:
        """Operations in a cycle, two a MAC: the number in the target's name."""
        return 2 * self.macs_per_cycle

    @functools.cached_property
    def image_banks(self) -> int:
        """Banks that hold feature maps, all groups together."""
        return self.bank_groups * self.pixel_parallel

    @functools.cached_property
    def convw_base(self) -> int:
        """Id of the first convolution weight bank."""
        return self.image_banks

    @functools.cached_property
    def dwconvw_bank(self) -> int:
        """Id of the bank with depthwise weights."""
        return self.convw_base + self.output_channel_parallel

    @functools.cached_property
    def bias_bank(self) -> int:
        """Id of the bias bank."""
        return self.dwconvw_bank + 1

    @functools.cached_property
    def bank_count(self) -> int:
        """Number of banks."""
        return self.bias_bank + 1 + sum(e.banks for e in self.extensions)

    @functools.cached_property
    def table_bank(self) -> int:
        """Id of the bank with tables, where there is one."""
        return self.bias_bank + 1

    @functools.cached_property
    def shift_bank(self) -> int:
        """Id of the bank with channels' shifts, where there is one."""
        return self.bias_bank + 1 + (Extension.TABLE in self.extensions)

    @functools.cached_property
    def scale_bank(self) -> int:
        """Id of the bank with multipliers, where there is one."""
        return self.shift_bank + (Extension.CHANNEL in self.extensions)

    @functools.cached_property
    def term_bank(self) -> int:
        """Id of the bank with terms of ELEW, where there is one."""
        return self.scale_bank + 1

    @property
    def plain(self) -> Self:
        """The same without extensions."""
        return dataclasses.replace(self, extensions=frozenset())

    def lacks(self, fingerprint: int) -> frozenset[Extension] | None:
        """Return the extensions that a program with a fingerprint needs, and this DPU has not.

        Programs may need fewer extensions than there are; None is a program for a DPU that differs
        in more than extensions.
        """
        needed = fingerprint & feature_bits(Extension)
        if fingerprint ^ needed != self.plain.fingerprint:
            return None
        return in_feature_code(needed) - self.extensions

    def runs(self, other: "Target") -> bool:
        """Whether programs for ``other`` run here."""
        return self.lacks(other.fingerprint) == frozenset()

    @property
    def feature_code(self) -> int:
        """The low 48 bits of the fingerprint."""
        return (
            self.arch
            | self.alu_pixel_parallel << 8
            | self.bank_groups << 24
            | self.channel_augmentation << 26
            | self.load_mean << 27
            | self.conv_leaky_relu << 28
            | self.alu_leaky_relu << 29
            | self.save_argmax << 30
            | self.log2_conv_write_parallel << 32
            | self.log2_alu_write_parallel << 34
            | self.reserved_features
            | feature_bits(self.extensions)
        )

    @property
    def fingerprint(self) -> int:
        """The 64-bit number a program carries: type, ISA version, feature code."""
        return TYPE_CODE << 56 | ISA_VERSION << 48 | self.feature_code

    @property
    def _short(self) -> str:
        return f"{TYPE}_ISA{ISA_VERSION}_B{self.peak}"

    @property
    def name(self) -> str:
        """The registered name, or the name AMD's tools give to unregistered fingerprints.

        A ``+`` and a name for each extension come after it.
        """
        name = self._short
        fingerprint = self.fingerprint & ~feature_bits(self.extensions)
        if fingerprint != _standard(self.arch):
            name += f"_{fingerprint:016X}"
        return "+".join((name, *(e.label for e in sorted(self.extensions))))

    @classmethod
    def from_fingerprint(cls, fingerprint: int) -> Self:
        """Return the target of a fingerprint.

        Raises
        ------
        TargetError
            The fingerprint is of another DPU family or ISA, or names no architecture.
        """
        kind, isa_version = fingerprint >> 56, fingerprint >> 48 & 0xFF
        if (kind, isa_version) != (TYPE_CODE, ISA_VERSION):
            raise TargetError(
                f"fingerprint {fingerprint:#x} is DPU type {kind}, ISA {isa_version}, "
                f"but must be type {TYPE_CODE} ({TYPE}), ISA {ISA_VERSION}",
                code="TARGET_FACTORY_INVALID_TYPE"
                if kind != TYPE_CODE
                else "TARGET_FACTORY_INVALID_ISA_VERSION",
            )
        f = fingerprint & 0xFFFF_FFFF_FFFF
        target = cls(
            arch=f & 0xF,
            alu_pixel_parallel=f >> 8 & 0xF,
            bank_groups=f >> 24 & 3,
            channel_augmentation=bool(f >> 26 & 1),
            load_mean=bool(f >> 27 & 1),
            conv_leaky_relu=bool(f >> 28 & 1),
            alu_leaky_relu=bool(f >> 29 & 1),
            save_argmax=bool(f >> 30 & 1),
            log2_conv_write_parallel=f >> 32 & 3,
            log2_alu_write_parallel=f >> 34 & 3,
            reserved_features=0,
            extensions=in_feature_code(f),
        )
        return dataclasses.replace(target, reserved_features=f & ~target.feature_code)

    @classmethod
    def from_name(cls, name: str) -> Self:
        """Return the target called ``name``: ``B4096``, a full name or a ``0x`` fingerprint.

        Names of extensions may follow, as in ``B4096+table``. Case does not matter.

        Raises
        ------
        TargetError
            Nothing is called so.
        """
        name, *labels = name.split("+")
        target = cls._without_labels(name)
        wanted = target.extensions | {extension(label) for label in labels}
        return dataclasses.replace(target, extensions=frozenset(wanted))

    @classmethod
    def _without_labels(cls, name: str) -> Self:
        if name.lower().startswith("0x"):
            try:
                return cls.from_fingerprint(int(name, 16))
            except ValueError:
                raise TargetError(
                    f"fingerprint {name!r} is not a hexadecimal number",
                    code="TARGET_FACTORY_PARSE_TARGET_FAIL",
                ) from None
        full = name.upper()
        if not full.startswith(TYPE):
            full = f"{TYPE}_ISA{ISA_VERSION}_{full}"
        fingerprint = registered().get(full)
        tail = full.rpartition("_")[2]
        if fingerprint is None and len(tail) == 16:
            try:
                found = cls.from_fingerprint(int(tail, 16))
            except (ValueError, TargetError):
                pass
            else:
                if found.fingerprint != _standard(found.arch) and full == found._short + "_" + tail:
                    return found
        if fingerprint is None:
            raise TargetError(
                f"no target is called {name!r}; known: {', '.join(registered())}",
                code="TARGET_FACTORY_UNREGISTERED_TARGET",
            )
        return cls.from_fingerprint(fingerprint)

    @classmethod
    def from_arch_json(cls, source: str | pathlib.Path | Mapping[str, Any]) -> Self:
        """Return the target of an ``arch.json``, which holds a ``target`` or a ``fingerprint``.

        One of Vitis AI's for a board need not exist, see :mod:`opendpu_arch.arch_files`.

        Raises
        ------
        TargetError
            The file is missing, is no such JSON, or the two entries disagree.
        """
        content: Any = source
        if not isinstance(source, Mapping):
            try:
                content = inputs.json_value(inputs.read_text(source))
            except (OSError, ValueError) as error:
                missing = isinstance(error, FileNotFoundError)
                if missing and (name := target_of_path(source, TYPE)):
                    return cls.from_name(name)
                why = error.strerror if isinstance(error, OSError) else error
                more = why_unknown(source, TYPE) if missing else ""
                raise TargetError(
                    f"arch.json {str(source)!r} cannot be read: {why}{more}",
                    code="TARGET_FACTORY_PARSE_TARGET_FAIL",
                ) from error
        entries = {
            k: content[k]
            for k in ("target", "fingerprint")
            if isinstance(content, Mapping) and isinstance(content.get(k), str)
        }
        if not entries:
            raise TargetError(
                f'arch.json {str(source)!r} has neither a string "target" '
                'nor a string "fingerprint"',
                code="TARGET_FACTORY_PARSE_TARGET_FAIL",
            )
        found = {
            k: cls.from_name(v if k == "target" else "0x" + v.lower().removeprefix("0x"))
            for k, v in entries.items()
        }
        first, *others = found.values()
        if any(first != other for other in others):
            raise TargetError(
                f"arch.json {str(source)!r}: target {first.name} has fingerprint "
                f"{first.fingerprint:#x}, not {entries['fingerprint']}",
                code="TARGET_FACTORY_INVALID_FEATURE_CODE",
            )
        return first


def _standard(arch: int) -> int:
    """Return the fingerprint of the registered configuration of an architecture."""
    return (
        TYPE_CODE << 56
        | ISA_VERSION << 48
        | 0x5601_0000
        | (ARCHITECTURES[arch][0] // 2) << 8
        | arch
    )


@functools.cache
def registered() -> dict[str, int]:
    """Return every registered target name with its fingerprint, smallest first."""
    folder = pathlib.Path(__file__).parent / "targets"
    entries = [json.loads(p.read_text(encoding="utf-8")) for p in folder.glob("*.json")]
    pairs = {e["target"]: int(e["fingerprint"], 16) for e in entries}
    return dict(sorted(pairs.items(), key=lambda p: Target.from_fingerprint(p[1]).peak))
