# SPDX-License-Identifier: Apache-2.0
"""Proofs about components: Yosys's SAT solver, and mutants in which they must fail.

A property is a component of Amaranth's ``Assume`` and ``Assert`` around the one that is meant; all
its inputs are free, but for reset, which is over.
"""

import inspect
import pathlib
import re
import subprocess
import tempfile
import types

from opendpu_hw import tools
from opendpu_hw.hierarchy import to_rtlil

#: An assertion as Amaranth writes it, without what older versions of Yosys do not know.
_CHECK = re.compile(
    r"cell \$check \$(?P<name>\d+)\n(?:    parameter (?!.FLAVOR).*\n)*"
    r'    parameter .FLAVOR "(?P<kind>assert|assume)"\n'
    r"(?=    connect .EN)"
)
_UNKNOWN = re.compile(r"    connect .(?:ARGS|TRG) \{  \}\n")
_PREPARE = """hierarchy -top property
proc
flatten
memory -nomap
{memory}
async2sync
opt -full
"""


class Refuted(AssertionError):
    """There is a run in which an assertion does not hold."""


def prove(component, *, cycles=None, induction=None, memories=True):
    """Prove all assertions of a component with members.

    Parameters
    ----------
    cycles : int or None
        Bounded: in the first ``cycles`` cycles after reset.
    induction : int or None
        For ever: by induction over at most so many cycles.
    memories : bool
        Whether memories are looked into; otherwise what they answer is free.

    Raises
    ------
    Refuted
        They do not hold, or induction does not get there.
    """
    text = to_rtlil(component, "property")
    memory = "memory_map" if memories else "delete t:$mem_v2"
    how = ["-seq", str(cycles)] if cycles else []
    if induction:
        how = ["-seq", "1", "-tempinduct", "-maxsteps", str(induction)]
    if cycles or induction:
        how += ["-set", "rst", "0"]
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder) / "property.il", pathlib.Path(folder) / "prove.ys"
        source.write_text(_UNKNOWN.sub("", _CHECK.sub(r"cell $\g<kind> $\g<name>\n", text)))
        script.write_text(
            f"read_rtlil {source.name}\n{_PREPARE.format(memory=memory)}"
            f"select -assert-min 1 t:$assert\n"
            f"sat -verify -prove-asserts -set-assumes {' '.join(how)}\n"
        )
        command = [tools.find("yosys"), "-s", script.name]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if "proof did fail" in ran.stderr + ran.stdout[-2000:]:
        raise Refuted(ran.stdout[-4000:])
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr


def mutated(module, old, new):
    """Return a copy of a module with another text in one place of its source."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in {module.__name__}"
    copy = types.ModuleType(module.__name__ + "_mutated")
    exec(compile(source.replace(old, new), f"<{module.__name__}: {new}>", "exec"), vars(copy))
    return copy


def check(make, module, faults, **how):
    """Prove a property of a module's component, and that it does not hold with each fault in it.

    ``faults`` are pairs for :func:`mutated`, ``how`` is given to :func:`prove`.
    """
    prove(make(module), **how)
    for fault in faults:
        try:
            prove(make(mutated(module, *fault)), **how)
        except Refuted:
            continue
        raise AssertionError(f"the proof does not see {fault[1]!r} in place of {fault[0]!r}")
