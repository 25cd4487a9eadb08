# SPDX-License-Identifier: Apache-2.0
"""Mutation test: put small faults into copies of the tree, one at a time, and see who finds them.

Every mutant names the tests that should find it; where these pass, tests/unit and tests/cosim run
whole. The work tree itself is never changed. Ends with 0 if all were found, with 1 if some were
not, and with 2, before anything runs, if the text of some no longer stands once in its file.

    python scripts/bench/mutants.py --only hw --jobs 2
"""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from mutation import MUTANTS
from mutation.campaign import Outcome, baseline, run
from mutation.mutant import Mutant
from mutation.sandbox import Sandbox

SURVIVED, STALE = 1, 2


def choose(words: Sequence[str]) -> list[Mutant]:
    """Return the mutants in whose name or file one of the words stands; all without words."""
    return [m for m in MUTANTS if not words or any(w in m.name or w in m.file for w in words)]


def line(outcome: Outcome) -> str:
    """Return one row of the table."""
    by = outcome.killed_by or "SURVIVED"
    if outcome.killed_by and not outcome.likely:
        by += "  (none of its own tests)"
    return f"{outcome.name:44} {outcome.seconds:7.1f} s  {by}"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    parser.add_argument("--only", action="append", default=[], metavar="WORD",
                        help="those with WORD in their name or file; may be repeated")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (default: 1)")
    parser.add_argument("--likely", action="store_true", help="only the mutants' own tests")
    parser.add_argument("--no-baseline", action="store_true",
                        help="do not run the tests without a fault first")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="of random tests (default: 1)")
    parser.add_argument("--seconds", type=float, default=1800,
                        help="a run of tests may take (default: 1800)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; return the exit status."""
    args = parse(arguments)
    chosen = choose(args.only)
    stale = [m for m in chosen if m.occurrences() != 1]
    for mutant in stale:
        print(
            f"{mutant.name} is stale: {mutant.file} has its text {mutant.occurrences()} times, "
            f"but must have it once: {mutant.old!r}",
            file=sys.stderr,
        )
    if stale:
        return STALE
    if args.list:
        for mutant in chosen:
            print(f"{mutant.name:44} {mutant.file}")
        return 0

    def report(outcome: Outcome) -> None:
        if not args.json:
            print(line(outcome), flush=True)

    with tempfile.TemporaryDirectory(prefix="opendpu-mutants-") as folder:
        sandbox = Sandbox(pathlib.Path(folder), seed=args.seed, seconds=args.seconds)
        if not args.no_baseline:
            baseline(sandbox, chosen, min(args.jobs, os.cpu_count() or 1))
        outcomes = run(sandbox, chosen, jobs=args.jobs, suite=not args.likely, report=report)
    survivors = [o for o in outcomes if o.killed_by is None]
    if args.json:
        print(json.dumps([dataclasses.asdict(o) for o in outcomes], indent=2))
    else:
        print(f"{len(outcomes) - len(survivors)} of {len(outcomes)} mutants were found")
    return SURVIVED if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
