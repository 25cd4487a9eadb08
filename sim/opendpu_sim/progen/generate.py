# SPDX-License-Identifier: Apache-2.0
"""The programs: which instructions, in which order."""

import random

import numpy as np
import numpy.typing as npt

from opendpu_arch import legal
from opendpu_arch.isa import AluMode
from opendpu_arch.target import Target
from opendpu_sim.progen import scaled, transfer
from opendpu_sim.progen.alu import alu
from opendpu_sim.progen.builder import Builder
from opendpu_sim.progen.conv import conv, dptwise
from opendpu_sim.progen.eltwise import eltwise
from opendpu_sim.progen.pool import pool

ENGINES = ("load", "save", "conv", "dwconv", "pool", "eltwise", "misc", "mixed")
"""What :func:`random_program` can aim at."""

DEPTHWISE = (AluMode.DWCV, AluMode.DWCV, AluMode.DWCVB0, AluMode.DWCVW16B0)
POOLING = (AluMode.AVEPOOL, AluMode.MAXPOOL, AluMode.MAXREDUCE)


def _dwconv(b: Builder) -> None:
    if b.rng.random() < 0.7:
        alu(b, DEPTHWISE)
    else:
        dptwise(b)


def _pool(b: Builder) -> None:
    if b.rng.random() < 0.7:
        alu(b, POOLING)
    else:
        pool(b)


def _misc(b: Builder) -> None:
    alu(b, legal.POINTWISE_MODES)


_COMPUTE = {"conv": conv, "dwconv": _dwconv, "pool": _pool, "eltwise": eltwise, "misc": _misc}


def random_program(
    engine: str, target: Target, seed: int
) -> tuple[bytes, dict[int, npt.NDArray[np.uint8]]]:
    """Return machine code and segments of a random legal program that tries one engine.

    The same arguments give the same program. Segment 0 holds random bytes, segment 1 takes the
    results (and starts with random bytes, so that stray writes show). Every byte that is read has
    been written, and the tokens cover every hazard between engines, so all correct machines agree
    on segment 1. ``mixed`` uses all engines, as concurrently as the hazards allow.

    Raises
    ------
    ValueError
        ``engine`` is none of :data:`ENGINES`.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}, but must be one of {', '.join(ENGINES)}")
    rng = random.Random(f"{engine} {target.name} {seed}")
    builder = Builder(target, rng)
    if target.load_mean:
        builder.fill(target.bias_bank, 0, -(-64 // builder.lanes))
    builder.fill_images()
    if engine in ("conv", "mixed"):
        builder.fill_weights()
    elif engine in ("dwconv", "misc"):
        builder.fill_weights(conv=False)
    if engine not in ("load", "save"):
        builder.fill_tables()
        scaled.fill(builder)
    for _ in range(rng.randrange(1, 16 if engine == "mixed" else 8)):
        if engine == "load":
            transfer.load(builder)
        elif engine == "save":
            transfer.save(builder)
        elif engine == "mixed":
            kinds = [transfer.load, transfer.save, transfer.reload, *_COMPUTE.values()]
            if builder.tables:
                kinds.append(transfer.reload_tables)
            if builder.records:
                kinds.append(scaled.reload)
            rng.choice(kinds)(builder)
        else:
            _COMPUTE[engine](builder)
    builder.save_images()
    return builder.finish()
