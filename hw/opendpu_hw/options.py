# SPDX-License-Identifier: Apache-2.0
"""Options of the top module: how the DPU is built, not what programs see of it."""

from opendpu_arch.errors import TargetError, UnsupportedError
from opendpu_hw import double_rate
from opendpu_hw.memory.ultra_bank import WORDS

#: Every option of :class:`opendpu_hw.top.Top`, and what it may be.
VALUES = {
    "vendor": "xilinx, ecp5 or None", "leaky_blocks": "True, False, None or a number of lanes",
    "ultra_ram": "a number of banks", "taps_per_cycle": "a number", "window": "True or False",
    "dsp_double_rate": "True or False",
}


def check(target, **options):
    """Raise an error if the DPU of a target cannot be built so.

    Raises
    ------
    UnsupportedError
        An option that there is not, or a value that it may not have for this target.
    TargetError
        Nobody knows where this target has what it needs.
    """
    if target.load_mean:
        raise TargetError(
            f"target {target.name} has load_mean=True, but must have False: "
            "no bank with means is known")
    for name in options:
        if name not in VALUES:
            raise UnsupportedError(
                f"there is no option {name!r}; known: {', '.join(sorted(VALUES))}")
    lanes, banks = target.output_channel_parallel, target.dwconvw_bank
    leaky, ultra = options.get("leaky_blocks"), options.get("ultra_ram", 0)
    right = {
        "vendor": options.get("vendor") in (None, "xilinx", "ecp5"),
        "leaky_blocks": leaky is None or (isinstance(leaky, int) and 0 <= leaky <= lanes),
        "ultra_ram": _number(ultra) and 0 <= ultra <= banks,
        "taps_per_cycle": _number(options.get("taps_per_cycle", 1))
        and options.get("taps_per_cycle", 1) > 0,
        "window": isinstance(options.get("window", True), bool),
        "dsp_double_rate": isinstance(options.get("dsp_double_rate", False), bool),
    }
    for name, is_right in right.items():
        if not is_right:
            more = {
                "leaky_blocks": f": {target.name} has {lanes} lanes",
                "ultra_ram": f" below id {banks}: {target.image_banks} image banks and {lanes} of "
                             f"CONVW",
            }.get(name, "")
            raise UnsupportedError(
                f"option {name} is {options[name]!r}, but must be {VALUES[name]}{more}")
    if leaky and options.get("vendor") != "xilinx":
        raise UnsupportedError(
            f"leaky_blocks is for DSP48E2, but vendor is {options.get('vendor')}; allowed with it: "
            "None, False or 0")
    if ultra and options.get("vendor") == "ecp5":
        raise UnsupportedError(
            f"option ultra_ram is {ultra}, but ECP5 has no UltraRAM; allowed with vendor ecp5: 0")
    if ultra and target.bank_depth > WORDS:
        raise UnsupportedError(
            f"banks have {target.bank_depth} words, but {WORDS} at most may be in UltraRAM")
    double_rate.check(target, **options)


def _number(value):
    return isinstance(value, int) and not isinstance(value, bool)
