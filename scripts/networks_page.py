# SPDX-License-Identifier: Apache-2.0
"""Write ``docs/networks.md``: what becomes of networks on the DPU.

Every network is quantized and compiled in processes of its own; what was measured is kept as JSON
in ``build/networks``, so that a run goes on where the last one ended. ``--again`` measures anew;
without names, all networks are measured.

    python scripts/networks_page.py resnet50 nudenet
    python scripts/networks_page.py --check
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "bench")]

from network_survey import measure  # noqa: E402
from network_survey.page import TARGETS, page  # noqa: E402
from network_survey.subjects import SUBJECTS, has_functions, substitutable  # noqa: E402

from opendpu_arch import outputs  # noqa: E402

FOLDER = ROOT / "build" / "networks"
PAGE = ROOT / "docs" / "networks.md"
VERSIONS = ("numpy", "onnxruntime", "onnx")


def machine() -> dict[str, str]:
    """Return what the figures of time depend on."""
    found = {"CPU cores": str(os.cpu_count()), "Python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in VERSIONS}


def kept(name: str, folder: pathlib.Path) -> dict[str, Any] | None:
    """Return what was measured of a network, if it was."""
    try:
        found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    except (OSError, ValueError):
        return None
    return found


def step(folder: pathlib.Path, *arguments: str) -> dict[str, Any]:
    """Run a step in a process of its own; its faults go to the terminal, and end the network."""
    command = [sys.executable, __file__, "--folder", str(folder), "--step", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(name: str, folder: pathlib.Path, *, again: bool) -> dict[str, Any]:
    """Measure a network in every variant that changes it; those measured already only ``again``."""
    subject = SUBJECTS[name]
    graph = subject.load()
    kinds = ["none", *(["hard"] if substitutable(graph) else [])]
    kinds += [measure.TABLE] if has_functions(graph) else []
    results: dict[str, Any] = {} if again else (kept(name, folder) or {}).get("results", {})
    for kind in (kind for kind in kinds if kind not in results):
        say(f"{name}: quantizing ({kind})")
        found = step(folder, "quantize", name, kind)
        found |= {"source": subject.source, "task": subject.task, "form": subject.form}
        found["targets"] = {}
        for target in TARGETS:
            say(f"{name}: compiling ({kind}) for {target}")
            found["targets"][target] = step(folder, "compile", name, kind, target)
        results[kind] = found
    return {"machine": machine(), "results": results}


def say(text: str) -> None:
    """Show progress, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def survey(names: list[str], folder: pathlib.Path, *, again: bool) -> list[str]:
    """Measure networks that are not measured yet; return those that failed."""
    failed = []
    for name in names:
        try:
            found = measured(name, folder, again=again)
        except importlib.metadata.PackageNotFoundError as error:
            print(f"{name}: package {error} is not installed (extra 'networks')", file=sys.stderr)
            failed.append(name)
        except subprocess.CalledProcessError as error:
            print(f"{name}: {' '.join(error.cmd[4:])} failed", file=sys.stderr)
            failed.append(name)
        else:
            outputs.write(folder / f"{name}.json", json.dumps(found, indent=1) + "\n")
    say("")
    return failed


def text(folder: pathlib.Path) -> str:
    """Return the page of all networks that were measured."""
    found = {name: one for name in SUBJECTS if (one := kept(name, folder)) is not None}
    if not found:
        raise SystemExit(f"nothing is measured in {folder}")
    where = {json.dumps(one["machine"]) for one in found.values()}
    if len(where) > 1:
        raise SystemExit(f"measured with different versions; use --again: {', '.join(where)}")
    results = {name: one["results"] for name, one in found.items()}
    return page(results, json.loads(where.pop()))


def main() -> None:
    """Measure, and write the page or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NETWORK", help=", ".join(SUBJECTS))
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER, help="where results are")
    parser.add_argument("--again", action="store_true", help="measure what is measured already")
    parser.add_argument("--check", action="store_true", help="compare the page with the results")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in SUBJECTS]
    if unknown:
        parser.error(f"network {unknown[0]!r} is unknown; known: {', '.join(SUBJECTS)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.step:
        measure.run_step(options.step[0], options.step[1:], options.folder)
        return
    if options.check:
        if PAGE.read_text() != text(options.folder):
            raise SystemExit(f"{PAGE} is not what {options.folder} says; write it again")
        return
    failed = survey(options.names or list(SUBJECTS), options.folder, again=options.again)
    outputs.write(PAGE, text(options.folder))
    if failed:
        raise SystemExit(f"not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
