"""No space left is a typed error before the first byte of a frame, never SIGBUS: on a full tmpfs of 1 MiB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import PAGE_BYTES

SCRIPT = Path(__file__).parent / "full_disk.py"
#: A mount of our own, in a namespace of our own; no privilege is needed where user namespaces are allowed.
IN_SMALL_TMPFS = [
    "unshare",
    "-rm",
    "sh",
    "-c",
    'mount -t tmpfs -o size=1m tmpfs "$1" && shift && exec "$@"',
    "sh",
]


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> None:
    mount = tmp_path_factory.mktemp("mount")
    try:
        subprocess.run([*IN_SMALL_TMPFS, str(mount), "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no user namespace to mount a tmpfs in: {error}")


def run(scenario: str, tmp_path: Path) -> dict[str, Any]:
    """What the scenario saw. A process that died of SIGBUS has no zero status."""
    full, aside = tmp_path / "full", tmp_path / "aside"
    full.mkdir()
    aside.mkdir()
    done = subprocess.run(
        [*IN_SMALL_TMPFS, str(full), sys.executable, str(SCRIPT), scenario, str(full), str(aside)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr}"
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("pages", ["inline", "helper"])
def test_append_is_refused_before_its_first_byte(pages: str, tmp_path: Path) -> None:
    seen = run(pages, tmp_path)
    for round_ in seen["rounds"]:
        for refused in round_["refused"]:
            assert refused["bytes_needed"] == PAGE_BYTES
            assert str(tmp_path / "full" / "run" / "journal" / "md") in refused["path"]
            assert refused["path"] in refused["message"]
            assert f"{PAGE_BYTES} bytes needed" in refused["message"]
            assert (refused["same_seq"], refused["untouched"], refused["finding"]) == (
                True,
                True,
                "open tail",
            )
        assert round_["read"] == round_["last_seq"]
    # And it goes on when there is room again, without a gap.
    assert [
        b["last_seq"] - a["last_seq"] > 100 for a, b in zip(seen["rounds"], seen["rounds"][1:], strict=False)
    ] == [
        True,
        True,
    ]
    assert seen["end"] == [seen["last_seq"]]
    assert seen["clean"]
    print(f"\nfull tmpfs: {sum(len(r['refused']) for r in seen['rounds'])} appends refused, SIGBUS 0")


@pytest.mark.usefixtures("namespaces")
def test_files_that_cannot_be_made(tmp_path: Path) -> None:
    seen = run("opening", tmp_path)
    assert seen["writer"]["bytes_needed"] == 16 << 20
    assert str(16 << 20) in seen["writer"]["message"]
    assert seen["control"]["bytes_needed"] == 6_208
    assert seen["counters"]["bytes_needed"] == 64 + 20 * 1_472
    for name in ("writer", "control", "counters"):
        assert seen[name]["path"] in seen[name]["message"]
    # Nothing half-made stays behind.
    assert seen["left"] in (["ballast"], ["ballast", "run/journal/md/lock"])


@pytest.mark.usefixtures("namespaces")
def test_recovery_on_a_full_disk(tmp_path: Path) -> None:
    seen = run("recovery", tmp_path)
    assert seen["error"]["bytes_needed"] == PAGE_BYTES
    assert "00000001.page" in seen["error"]["message"] or "00000002.page" in seen["error"]["message"]
    assert seen["kept"]
    assert seen["last_seq"] == 10
    assert seen["read"] == list(range(1, 12))
    assert seen["clean"]


@pytest.mark.usefixtures("namespaces")
def test_recorder_on_a_full_disk(tmp_path: Path) -> None:
    seen = run("recorder", tmp_path)
    assert seen["errors"] >= 8
    assert seen["facts"]["path"] in seen["facts"]["message"]
    assert "no space left" in seen["facts"]["message"]
    assert seen["recorded"]
    assert seen["same"]
    assert seen["read"]
    print(f"\nfull run directory: {seen['errors']} steps refused over {seen['rounds']} rounds, copy complete")
