# SPDX-License-Identifier: Apache-2.0
"""``scripts/setup.sh`` on machines that lack something: it says which package to install."""

import os
import pathlib
import shutil
import subprocess

import pytest


@pytest.fixture
def tree(tmp_path: pathlib.Path, repository: pathlib.Path) -> pathlib.Path:
    """A tree with the script, and a folder ``bin`` that is all of the PATH."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(repository / "scripts" / "setup.sh", tmp_path / "scripts")
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "dirname"):
        found = shutil.which(tool)
        assert found
        (tmp_path / "bin" / tool).symlink_to(found)
    return tmp_path


def program(tree: pathlib.Path, path: str, body: str) -> None:
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!{shutil.which('bash')}\n{body}\n", encoding="utf-8")
    file.chmod(0o755)


def run(tree: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(tree / "bin" / "bash"), str(tree / "scripts" / "setup.sh")],
        env={"PATH": str(tree / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_new_enough_python_it_says_so(tree: pathlib.Path) -> None:
    program(tree, "bin/python3", "exit 1")
    result = run(tree)
    assert result.returncode == 1
    assert "setup: no Python 3.11 or newer was found." in result.stderr
    assert "apt-get install python3 python3-venv" in result.stderr
    assert not (tree / ".venv").exists()


def test_without_venv_it_names_the_package(tree: pathlib.Path) -> None:
    program(
        tree,
        "bin/python3",
        'case "$*" in *virtualenv*|*pip*) exit 1;; --version) echo Python 3.11.2;; esac',
    )
    result = run(tree)
    assert result.returncode == 1
    assert "setup: Python 3.11.2 cannot make a virtual environment." in result.stderr
    assert "sudo apt-get install python3-venv" in result.stderr
    assert not (tree / ".venv").exists()


def test_without_venv_the_pip_of_the_system_does(tree: pathlib.Path) -> None:
    program(
        tree,
        "bin/python3",
        f'case "$*" in *ensurepip*|*virtualenv*) exit 1;; esac; echo "$*" >>{tree}/calls',
    )
    program(tree, "later", 'echo "$*" >installed')
    with (tree / "bin" / "python3").open("a", encoding="utf-8") as file:
        file.write(
            f'case "$*" in *--without-pip*) {shutil.which("mkdir")} -p .venv/bin; '
            f"{shutil.which('cp')} later .venv/bin/python;; esac\n"
        )
    result = run(tree)
    assert result.returncode == 0, result.stderr
    calls = (tree / "calls").read_text(encoding="utf-8")
    assert "-m venv --without-pip .venv" in calls
    assert "-m pip --python .venv/bin/python install --quiet pip" in calls
    assert "--editable" in (tree / "installed").read_text(encoding="utf-8")


def test_root_gets_the_package_by_itself(tree: pathlib.Path) -> None:
    if os.geteuid():
        pytest.skip("only root may install packages")
    program(
        tree,
        "bin/python3",
        f'case "$*" in *virtualenv*|*pip*) exit 1;; *venv*) echo made >{tree}/made;; esac',
    )
    program(tree, "bin/apt-get", f'echo "$*" >>{tree}/installs')
    program(tree, "bin/touch", "exit 0")
    run(tree)
    assert "install -y -qq python3-venv" in (tree / "installs").read_text(encoding="utf-8")
    assert (tree / "made").exists()


def test_without_a_compiler_it_warns_and_goes_on(tree: pathlib.Path) -> None:
    program(tree, ".venv/bin/python", 'echo "$*" >installed')
    result = run(tree)
    assert result.returncode == 0
    assert "setup: warning: g++ is missing; the RTL simulator needs it" in result.stderr
    assert "install --quiet" in (tree / "installed").read_text(encoding="utf-8")


def test_when_pip_fails_so_does_the_script(tree: pathlib.Path) -> None:
    program(tree, ".venv/bin/python", "exit 3")
    result = run(tree)
    assert result.returncode == 1
    assert "setup: pip could not install OpenDPU" in result.stderr
