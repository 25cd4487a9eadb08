# SPDX-License-Identifier: Apache-2.0
"""A LiteX system for a board without a processor: its Verilog, pins, and what a host must know."""

import contextlib
import importlib
import io
import json
import logging
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target
from opendpu_hw import verilog
from opendpu_hw.boards.catalog import LitexBoard

#: What a host must know of the system; the device ``litex`` reads it.
DESCRIPTION = "soc.json"


def write(board: LitexBoard, target: Target, where: pathlib.Path, clock_mhz: float,
          options: dict[str, Any]) -> tuple[pathlib.Path, ...]:
    """Write the DPU, the system around it, its pins and its description; return the paths.

    Raises
    ------
    OutputError
        A file cannot be written; known before the Verilog is made.
    UnsupportedError
        LiteX is not installed.
    """
    check()
    design = [f"{target.name}.v", f"{board.name}.v", f"{board.name}.lpf"]
    names = [*design, f"{target.name}.json", DESCRIPTION]
    outputs.check_folder(where)
    if where.exists():
        outputs.check_all(where / name for name in names)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source, _ = verilog.write(target, folder, **options)
        with quiet():
            soc = _board_soc(board, source, clock_mhz * 1e6)
            soc.build(build_dir=str(folder), build_name=board.name, run=False)
        contents = sorted(path.name for path in folder.glob("*.init"))
        description = {"board": board.name, "baud": board.baud, "files": design + contents,
                       **soc.description()}
        outputs.write(folder / DESCRIPTION, json.dumps(description, indent=2) + "\n")
        names += contents
        with outputs.making_folder(where):
            for made in names:
                outputs.write(where / made, (folder / made).read_bytes())
    return tuple(where / name for name in names)


def check() -> None:
    """Raise UnsupportedError if LiteX is not installed."""
    try:
        for name in ("litex", "litedram", "litex_boards"):
            importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(
            f"boards without a processor need {error.name}, which is not installed; "
            "try: pip install opendpu[boards]") from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep LiteX's log and drawings off the terminal; its warnings stay."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(pathlib.Path.cwd()):
            yield
    finally:
        logging.disable(before)


def _board_soc(board: LitexBoard, source: pathlib.Path, clock: float) -> Any:
    """Return the system on the pins of a board."""
    import litedram.modules
    from litedram.phy import GENSDRPHY
    from litex.soc.cores.uart import RS232PHY

    from opendpu_hw.boards.litex_soc import DpuSoC, Ecp5Clocks

    module = importlib.import_module(f"litex_boards.platforms.{board.platform}")
    platform = module.Platform(
        device=board.device, revision=board.revision, toolchain="trellis")
    return DpuSoC(
        platform, clock, source=source.resolve(), crg=Ecp5Clocks(platform, clock),
        sdram_phy=GENSDRPHY(platform.request("sdram"), clock),
        sdram_module=getattr(litedram.modules, board.sdram)(clock, "1:1"),
        serial_phy=RS232PHY(platform.request("serial"), clock, board.baud))
