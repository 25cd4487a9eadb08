# SPDX-License-Identifier: Apache-2.0
"""The cache: what is damaged is made again, and nothing needs it."""

import os
import pathlib
import subprocess
import sys
import time
import warnings

import pytest

from opendpu_arch import cache


@pytest.fixture
def root(tmp_path, monkeypatch) -> pathlib.Path:
    """Return an empty cache folder that the process uses."""
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_unstored", {})
    return tmp_path / "cache"


class Maker:
    """Makes a file or a folder with two files, and counts how often."""

    def __init__(self, *, folder: bool = False) -> None:
        self.folder = folder
        self.made = 0

    def __call__(self, path: pathlib.Path) -> None:
        self.made += 1
        if not self.folder:
            path.write_bytes(b"content")
            return
        path.mkdir()
        (path / "a").write_bytes(b"content")
        (path / "b").write_bytes(b"more")
        (path / "b").chmod(0o755)


def test_digest_tells_borders_and_order_apart():
    assert len({cache.digest(*p) for p in [("ab", "c"), ("a", "bc"), ("c", "ab"), ("abc",)]}) == 4


def test_the_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path))
    assert cache.folder() == tmp_path
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(cache.ENVIRONMENT, "here")
    assert cache.folder() == tmp_path / "here"


@pytest.mark.parametrize("folder", [False, True])
def test_an_entry_is_made_once(root, folder):
    maker = Maker(folder=folder)
    path = cache.entry("kind", "name", maker)
    assert path == root / "kind" / "name"
    assert cache.entry("kind", "name", maker) == path
    assert maker.made == 1
    if folder:
        assert os.access(path / "b", os.X_OK)
    names = {p.name for p in path.parent.iterdir()}
    assert names == {"name", "name.sha256", "name.lock"}


def damage(path: pathlib.Path, how: str) -> None:
    file = path / "a" if path.is_dir() else path
    match how:
        case "flipped":
            file.write_bytes(b"cOntent")
        case "cut":
            file.write_bytes(b"con")
        case "empty":
            file.write_bytes(b"")
        case "gone":
            file.unlink()
        case "more" if path.is_dir():
            (path / "c").write_bytes(b"")
        case "more":
            file.write_bytes(b"content\n")
        case "hash gone":
            path.with_name(f"{path.name}.sha256").unlink()
        case "hash cut":
            path.with_name(f"{path.name}.sha256").write_bytes(b"\xff")
        case "other kind" if not path.is_dir():
            path.unlink()
            path.mkdir()
        case "other kind":
            (path / "a").unlink()
            (path / "a").mkdir()


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize(
    "how", ["flipped", "cut", "empty", "gone", "more", "hash gone", "hash cut", "other kind"]
)
def test_a_damaged_entry_is_made_again(root, folder, how):
    maker = Maker(folder=folder)
    path = cache.entry("kind", "name", maker)
    damage(path, how)
    assert cache.entry("kind", "name", maker) == path
    assert maker.made == 2
    assert (path / "a" if folder else path).read_bytes() == b"content"
    cache.entry("kind", "name", maker)
    assert maker.made == 2


def test_what_fails_is_not_stored(root):
    def fail(path: pathlib.Path) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.entry("kind", "name", fail)
    assert {p.name for p in (root / "kind").iterdir()} == {"name.lock"}
    assert cache.entry("kind", "name", Maker()).read_bytes() == b"content"


def no_space(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def full(_root: pathlib.Path, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(cache, "_store", no_space)
    return "No space left on device"


def read_only(_root: pathlib.Path, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(pathlib.Path, "mkdir", lambda *_, **__: (_ for _ in ()).throw(OSError(30, "RO")))
    return "RO"


def no_folder(root: pathlib.Path, _patch: pytest.MonkeyPatch) -> str:
    root.write_bytes(b"")
    return "(Not a directory|File exists)"


def system_folder(_root: pathlib.Path, patch: pytest.MonkeyPatch) -> str:
    patch.setenv(cache.ENVIRONMENT, "/proc/opendpu")
    return "No such file"


def no_home(_root: pathlib.Path, patch: pytest.MonkeyPatch) -> str:
    patch.delenv(cache.ENVIRONMENT)
    patch.delenv("XDG_CACHE_HOME", raising=False)
    patch.setattr(os.path, "expanduser", lambda path: path)
    return "the user has no home folder"


@pytest.mark.parametrize("trouble", [full, read_only, no_folder, system_folder, no_home])
def test_no_cache_is_no_error(root, tmp_path, monkeypatch, trouble):
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        reason = trouble(root, patch)
        maker = Maker()
        with pytest.warns(cache.CacheWarning, match=rf"cannot be used \({reason}.*\$OPENDPU_CACHE"):
            path = cache.entry("kind", "name", maker)
        assert path.read_bytes() == b"content"
        assert cache.entry("kind", "name", maker) == path, "for this process it is kept"
        assert maker.made == 1
        with pytest.warns(cache.CacheWarning):
            assert cache.text("kind", "text", lambda: "made") == "made"
    assert not (tmp_path / "~").exists()
    assert [p for p in root.rglob("*") if p.is_file() and p.suffix != ".lock"] == []


def test_a_read_only_cache_is_used(root, monkeypatch):
    """What is there and whole is taken, without a lock and without a warning."""
    path = cache.entry("kind", "name", Maker())
    for name in ("utime", "mkdir"):
        monkeypatch.setattr(os, name, no_space)
    assert cache.entry("kind", "name", Maker()) == path


def test_texts(root):
    made: list[int] = []

    def make() -> str:
        made.append(1)
        return "zwölf"

    assert [cache.text("kind", "t.v", make) for _ in range(2)] == ["zwölf"] * 2
    (root / "kind" / "t.v").write_text("elf")
    assert cache.text("kind", "t.v", make) == "zwölf"
    assert len(made) == 2


def test_two_processes_share_one_build(root, tmp_path):
    script = (
        "import pathlib, sys, time\n"
        "from opendpu_arch import cache\n"
        "def make(path):\n"
        f"    pathlib.Path({str(tmp_path)!r}, 'made').open('a').write('x')\n"
        "    time.sleep(0.3); path.write_bytes(b'content')\n"
        "print(cache.entry('kind', 'name', make).read_bytes())\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(3)
    ]
    assert [process.communicate()[0] for process in running] == [b"b'content'\n"] * 3
    assert (tmp_path / "made").read_text() == "x"


def test_entries_used_longest_ago_go(root, monkeypatch):
    def make(path: pathlib.Path) -> None:
        path.write_bytes(bytes(1000))

    monkeypatch.setattr(cache, "LIMIT", 2500)
    long_ago = time.time() - 10 * cache.SPARED
    for number, name in enumerate("abc"):
        path = cache.entry("kind", name, make)
        if name != "b":
            os.utime(path, (long_ago + number, long_ago + number))
    (root / "kind" / ".store-dead").mkdir()
    os.utime(root / "kind" / ".store-dead", (long_ago, long_ago))
    cache.entry("kind", "a", make)  # used, so no longer the oldest
    cache.entry("kind", "d", make)
    assert {p.name for p in (root / "kind").iterdir() if p.suffix == ""} == {"a", "b", "d"}
    assert not (root / "kind" / "c.sha256").exists()


def test_missing_home_in_a_process_of_its_own(tmp_path):
    """Nothing called ``~`` appears where the process runs."""
    script = "from opendpu_arch import cache; print(cache.folder())"
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    environment.pop(cache.ENVIRONMENT, None)
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    found = done.stdout.strip()
    assert found == "None" or pathlib.Path(found).is_absolute()
    assert list(tmp_path.iterdir()) == []


def test_no_warning_where_all_is_well(root):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.entry("kind", "name", Maker())
