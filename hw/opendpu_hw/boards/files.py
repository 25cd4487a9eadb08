# SPDX-License-Identifier: Apache-2.0
"""The files that a board's tools need, written into a folder."""

import pathlib
from typing import Any

from opendpu_arch import outputs
from opendpu_arch.errors import EncodingError, UnsupportedError
from opendpu_arch.target import Target
from opendpu_hw import verilog
from opendpu_hw.boards import device_tree, fit, ipxact, vivado
from opendpu_hw.boards.catalog import Board, LitexBoard, ZynqBoard
from opendpu_hw.options import check as check_options


def write(board: Board, target: Target, where: str | pathlib.Path, *,
          clock_mhz: float | None = None, **options: Any) -> tuple[pathlib.Path, ...]:
    """Write what a board's tools need; return the paths.

    Parameters
    ----------
    board
        From :mod:`opendpu_hw.boards.catalog`.
    target
        The DPU.
    where
        The folder, made if need be.
    clock_mhz
        Clock of the DPU; the board's default.
    options
        Passed to :class:`opendpu_hw.top.Top`. Unless given, ``vendor`` is the device's, and there
        is what the board has for the target's size.

    Raises
    ------
    OutputError
        A file cannot be written; known before the Verilog is made.
    EncodingError
        A clock that the board does not make.
    UnsupportedError
        The DPU cannot be built so or cannot fit, the board needs what is not installed, or its
        device has no primitives of that vendor.
    """
    outputs.check_folder(where)
    clock = board.clock_mhz if clock_mhz is None else clock_mhz
    least, most = board.clock_range_mhz
    if not least <= clock <= most:
        raise EncodingError(
            f"clock of {board.name} is {clock:g} MHz, but must be in {least}..{most}")
    options = {"vendor": board.vendor} | options
    if options["vendor"] not in (board.vendor, None):
        raise UnsupportedError(
            f"vendor is {options['vendor']}, but the {board.part} of {board.name} has no such "
            f"primitives; allowed with it: {board.vendor} or none")
    options = board.options_of(target) | options
    check_options(target, **options)
    fit.check(board, target, options)
    if options["vendor"] is None:
        del options["vendor"]
    if isinstance(board, ZynqBoard):
        return _zynq(board, target, pathlib.Path(where), clock, options)
    assert isinstance(board, LitexBoard)
    from opendpu_hw.boards import litex_project  # imports LiteX
    return litex_project.write(board, target, pathlib.Path(where), clock, options)


def _zynq(board: ZynqBoard, target: Target, where: pathlib.Path, clock: float,
          options: dict[str, Any]) -> tuple[pathlib.Path, ...]:
    double_rate = bool(options.get("dsp_double_rate"))
    texts = {
        where / "vivado.tcl": vivado.script(board, clock, double_rate=double_rate),
        where / f"{vivado.DESIGN}.xdc": vivado.constraints(board, double_rate=double_rate),
        where / f"{vivado.DESIGN}.dtso": device_tree.overlay(
            board, bitstream=f"{vivado.DESIGN}.bit.bin", clock_mhz=clock)}
    core = where / "ip" / "component.xml"
    outputs.check_folder(where)
    for path in (*texts, core):
        if path.parent.exists():
            outputs.check(path)
    source, about = verilog.write(target, core.parent, **options)
    description = verilog.description(target, source.read_text(encoding="utf-8"))
    outputs.write(core, ipxact.component(description, source.name))
    for path, text in texts.items():
        outputs.write(path, text)
    return source, about, core, *texts
