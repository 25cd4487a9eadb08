# SPDX-License-Identifier: Apache-2.0
"""A profile in the trace-event format, for Perfetto and Chrome: one track an engine.

The engine takes instructions before it has finished those before them. A track shows what is
oldest at a time; the true start and end are among an event's arguments, in cycles.
"""

import json
from collections.abc import Iterator
from typing import Any

from opendpu.profile.measure import Profile, Run
from opendpu.profile.tokens import producers
from opendpu_arch import asm
from opendpu_arch.isa import Engine

Event = dict[str, Any]


def trace_json(profile: Profile, *, tokens: bool = True) -> str:
    """Return the trace; ``tokens`` adds an arrow from giver to taker of each."""
    events = [e for n, run in enumerate(profile.runs) for e in _events(n, run, profile, tokens)]
    head = {
        "displayTimeUnit": "ns",
        "otherData": {
            "model": profile.name,
            "target": profile.target.name,
            "device": profile.device,
            "memory": profile.memory,
            "clock_mhz": profile.clock_mhz,
        },
    }
    return json.dumps({**head, "traceEvents": events}) + "\n"


def _events(number: int, run: Run, profile: Profile, tokens: bool) -> Iterator[Event]:
    timeline = run.statistics.timeline
    assert timeline is not None
    start, end = timeline.start.tolist(), (timeline.end + 1).tolist()
    offset = sum(other.statistics.cycles for other in profile.runs[:number])

    def moment(cycle: int) -> float:
        return (offset + cycle) / profile.clock_mhz

    yield _name("process_name", number, 0, run.view.name)
    for engine in Engine:
        yield _name("thread_name", number, engine, engine.name)
        yield {
            "ph": "M", "name": "thread_sort_index", "pid": number, "tid": int(engine),
            "args": {"sort_index": int(engine)},
        }  # fmt: skip
    shown = dict.fromkeys(Engine, 0)
    for position, instruction in enumerate(run.view.instructions):
        engine = instruction.ENGINE
        begin = max(start[position], shown[engine])
        shown[engine] = max(end[position], begin)
        layer = run.view.layer_of[position]
        yield {
            "ph": "X", "pid": number, "tid": int(engine), "cat": engine.name.lower(),
            "name": run.view.layers[layer] if layer >= 0 else instruction.mnemonic(),
            "ts": moment(begin), "dur": (shown[engine] - begin) / profile.clock_mhz,
            "args": {
                "instruction": position, "code": asm.format_instruction(instruction),
                "start": start[position], "end": end[position] - 1,
            },
        }  # fmt: skip
    if tokens:
        yield from _arrows(number, run, start, end, moment)


def _arrows(
    number: int, run: Run, start: list[int], end: list[int], moment: Any
) -> Iterator[Event]:
    count = 0
    for taker, givers in enumerate(producers(run.view.instructions)):
        for giver in givers:
            name = f"{number}.{count}"
            count += 1
            common = {"cat": "token", "name": "token", "id": name, "pid": number}
            engine = run.view.instructions[giver].ENGINE
            yield {**common, "ph": "s", "tid": int(engine), "ts": moment(end[giver] - 1)}
            engine = run.view.instructions[taker].ENGINE
            yield {
                **common, "ph": "f", "bp": "e", "tid": int(engine), "ts": moment(start[taker]),
            }  # fmt: skip


def _name(kind: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": int(thread), "args": {"name": name}}
