# SPDX-License-Identifier: Apache-2.0
"""Output files: whole or not at all, and refused before long work; all of it as root too."""

import os
import pathlib
import re
import resource
import stat
import subprocess
import sys
import threading

import pytest

from opendpu_arch import outputs
from opendpu_arch.errors import OutputError


@pytest.fixture
def umask():
    """Return a function that sets the umask until the test ends."""
    before = os.umask(0)
    os.umask(before)
    yield os.umask
    os.umask(before)


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refused(path: pathlib.Path, reason: str, **options: object) -> None:
    """Expect that the check refuses a path for a reason, and that nothing changes."""
    before = sorted(path.parent.iterdir()) if path.parent.is_dir() else None
    with pytest.raises(OutputError, match=f"^{re.escape(f'{path} cannot be written: {reason}')}"):
        outputs.check(path, **options)
    assert before is None or sorted(path.parent.iterdir()) == before


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_mode_of_the_umask(tmp_path, umask, mask, expected):
    umask(mask)
    outputs.write(tmp_path / "new", "text")
    assert (tmp_path / "new").read_bytes() == b"text"
    assert mode(tmp_path / "new") == expected
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_replaced_file_keeps_its_mode_and_its_owner(tmp_path):
    path = tmp_path / "old"
    path.write_bytes(b"before")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    owner = path.stat().st_uid
    outputs.write(path, b"after")
    assert (path.read_bytes(), mode(path), path.stat().st_uid) == (b"after", 0o640, owner)


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path, exists):
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / "file"
    if exists:
        target.write_bytes(b"before")
    (tmp_path / "link").symlink_to(pathlib.Path("far", "file"))
    (tmp_path / "second").symlink_to(tmp_path / "link")
    outputs.check(tmp_path / "second")
    outputs.write(tmp_path / "second", b"after")
    assert (tmp_path / "second").is_symlink()
    assert (tmp_path / "link").is_symlink()
    assert not target.is_symlink()
    assert target.read_bytes() == b"after"
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["file"]


def test_a_pipe_is_written_through(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    outputs.check(pipe)
    outputs.write(pipe, b"x" * 100_000)
    reader.join()
    assert got == [b"x" * 100_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_stays_a_device(tmp_path):
    node = tmp_path / "null"
    try:
        os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        node.write_bytes(b"")
    except OSError:  # containers may forbid it
        node.unlink(missing_ok=True)
        node.symlink_to("/dev/null")
    outputs.check(node)
    outputs.write(node, b"gone")
    assert stat.S_ISCHR(node.stat().st_mode)
    assert stat.S_ISCHR(pathlib.Path("/dev/null").stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["null"]


def test_a_full_device_is_one_error():
    with pytest.raises(OutputError, match=r"^/dev/full cannot be written: No space left on dev"):
        outputs.write("/dev/full", b"x")


def test_standard_output_is_written_through(tmp_path):
    """Where it is a file too: not replaced, and what was printed before stays."""
    script = (
        "from opendpu_arch import outputs; print('first', flush=True);"
        "outputs.check('/dev/stdout'); assert outputs.is_standard_output('/dev/stdout');"
        "outputs.write('/dev/stdout', b'second')"
    )
    file = tmp_path / "out"
    with file.open("wb") as opened:
        subprocess.run([sys.executable, "-c", script], stdout=opened, check=True)
    assert file.read_bytes() == b"first\nsecond"
    piped = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    assert piped.stdout == b"first\nsecond"
    assert not outputs.is_standard_output(tmp_path / "out")


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_left_of_what_was_not_finished(tmp_path, failure):
    (tmp_path / "old").write_bytes(b"before")
    for name in ("old", "new"):
        with (
            pytest.raises((OutputError, KeyboardInterrupt)) as caught,
            outputs.writing(tmp_path / name) as file,
        ):
            file.write(b"half")
            raise failure
        if isinstance(failure, OSError):
            assert str(caught.value) == (
                f"{tmp_path / name} cannot be written: No space left on device"
            )
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_bytes() == b"before"


def test_a_disk_that_gets_full_leaves_nothing(tmp_path):
    """The kernel's own error, from a limit to the size of files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    (tmp_path / "old").write_bytes(b"before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OutputError, match="old cannot be written: File too large"):
            outputs.write(tmp_path / "old", bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_bytes() == b"before"


def test_what_cannot_be_an_output_is_refused(tmp_path, monkeypatch):
    refused(tmp_path, "it is a directory")
    refused(tmp_path / "no" / "file", f"there is no folder {tmp_path}/no")
    (tmp_path / "file").write_bytes(b"")
    refused(tmp_path / "file" / "x", "Not a directory")
    (tmp_path / "file").chmod(0o444)
    refused(tmp_path / "file", "the file is read-only")
    (tmp_path / "loop").symlink_to("loop")
    refused(tmp_path / "loop", "Too many levels of symbolic links")
    refused(tmp_path / ("x" * 300), "File name too long")
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "file")
    refused(tmp_path / "link", f"there is no folder {tmp_path}/gone")
    with pytest.raises(OutputError, match="the file is read-only"):
        outputs.write(tmp_path / "file", b"x")
    assert (tmp_path / "file").read_bytes() == b""
    monkeypatch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(OSError(30, "Read-only file")))
    refused(tmp_path / "new", "its folder cannot be written: Read-only file")


def test_an_input_is_no_output(tmp_path):
    model = tmp_path / "model"
    model.write_bytes(b"")
    (tmp_path / "soft").symlink_to(model)
    (tmp_path / "hard").hardlink_to(model)
    for name in ("model", "soft", "hard"):
        refused(tmp_path / name, f"it is the input {model}", inputs=[tmp_path / "none", model])
    outputs.check(tmp_path / "other", inputs=[model])


def test_two_outputs_are_two_files(tmp_path):
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(OutputError, match=f"link cannot be written: {tmp_path}/a is written to"):
        outputs.check_all([tmp_path / "a", None, tmp_path / "link"])
    outputs.check_all([tmp_path / "a", tmp_path / "b", "/dev/null", "/dev/null"])
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("check", [outputs.check, outputs.check_folder])
def test_an_empty_path_is_no_place(check):
    """Pathlib takes it for the current folder."""
    with pytest.raises(OutputError, match=r"^'' cannot be written: the path is empty"):
        check("")


def test_folders(tmp_path, monkeypatch):
    outputs.check_folder(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=f"a cannot be written: {tmp_path}/file is no folder"):
        outputs.check_folder(tmp_path / "file" / "a")
    monkeypatch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(OSError(30, "Read-only file")))
    with pytest.raises(OutputError, match="a cannot be written: Read-only file"):
        outputs.check_folder(tmp_path / "a")
