# SPDX-License-Identifier: Apache-2.0
"""Mutants one after the other: first the tests that should find it, then all that are quick."""

import concurrent.futures
import dataclasses
import time
from collections.abc import Callable, Sequence

from mutation.mutant import Mutant
from mutation.sandbox import Sandbox
from opendpu_arch.errors import ToolError

SUITE = ("tests/unit", "tests/cosim", "--ignore=tests/unit/scripts/test_mutants.py")
"""What runs where the likely tests pass; the test of the table itself would find every mutant."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    name: str
    file: str
    killed_by: str | None
    """The test that failed first; none: it survived."""
    likely: bool
    """Whether that was one of the mutant's own tests."""
    seconds: float


def baseline(sandbox: Sandbox, chosen: Sequence[Mutant], jobs: int) -> None:
    """Run the mutants' own tests without any fault, and build the simulators they need.

    Raises
    ------
    ToolError
        One fails: it would seem to find every fault.
    """
    tests = list(dict.fromkeys(path for mutant in chosen for path in mutant.tests))
    with sandbox.copy() as tree:
        verdict = sandbox.test(tree, tests, jobs=jobs, keep_cache=True)
    if not verdict.passed:
        raise ToolError(f"without any fault {verdict.by} fails:\n{verdict.output[-2000:]}")


def judge(sandbox: Sandbox, mutant: Mutant, *, suite: bool) -> Outcome:
    """Put one mutant into a copy and run tests until one fails.

    ``suite``: where the mutant's own tests pass, all tests of :data:`SUITE` run.
    """
    start = time.monotonic()
    with sandbox.copy() as tree:
        mutant.plant(tree)
        verdict = sandbox.test(tree, mutant.tests)
        likely = not verdict.passed
        if verdict.passed and suite:
            verdict = sandbox.test(tree, SUITE)
    seconds = round(time.monotonic() - start, 1)
    return Outcome(mutant.name, mutant.file, verdict.by, likely, seconds)


def run(
    sandbox: Sandbox,
    chosen: Sequence[Mutant],
    *,
    jobs: int,
    suite: bool,
    report: Callable[[Outcome], None],
) -> list[Outcome]:
    """Judge mutants, ``jobs`` at a time; ``report`` gets each outcome when it is known."""
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(judge, sandbox, mutant, suite=suite) for mutant in chosen]
        try:
            for future in concurrent.futures.as_completed(futures):
                outcomes.append(future.result())
                report(outcomes[-1])
        except BaseException:
            pool.shutdown(cancel_futures=True, wait=False)
            raise
    order = {mutant.name: place for place, mutant in enumerate(chosen)}
    return sorted(outcomes, key=lambda outcome: order[outcome.name])
