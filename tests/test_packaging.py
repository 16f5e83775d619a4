"""What an installation holds, and what a wheel must not."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tapewire

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {"journal", "runtime", "processes", "configs", "examples"}
NATIVE_CLASSES = {"Control", "Counters", "StreamWriter"}


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_version_is_the_same_everywhere(pyproject: dict[str, Any]) -> None:
    declared = pyproject["project"]["version"]
    assert tapewire.__version__ == declared
    assert importlib.metadata.version("tapewire") == declared


def test_package_is_marked_as_typed() -> None:
    assert importlib.resources.files("tapewire").joinpath("py.typed").is_file()


def test_stub_names_the_native_classes() -> None:
    stub = importlib.resources.files("tapewire").joinpath("_native.pyi").read_text()
    assert set(re.findall(r"^class (\w+)", stub, re.MULTILINE)) >= NATIVE_CLASSES


def test_stub_matches_the_built_module() -> None:
    from tapewire import _native

    stub = importlib.resources.files("tapewire").joinpath("_native.pyi").read_text()
    declared = set(re.findall(r"^(?:class|def) (\w+)", stub, re.MULTILINE))
    built = {name for name in dir(_native) if not name.startswith("_") and (callable(getattr(_native, name)))}
    assert declared == built


def test_importing_the_native_module_does_not_import_numpy() -> None:
    code = "import sys, tapewire._native; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_bundled_topologies_can_be_read() -> None:
    configs = importlib.resources.files("tapewire.configs")
    names = [entry.name for entry in configs.iterdir() if entry.name.endswith(".toml")]
    assert "latency.toml" in names
    for name in names:
        assert "processes" in tomllib.loads(configs.joinpath(name).read_text()), name


def test_user_modules_named_like_a_room_are_not_shadowed(tmp_path: Path) -> None:
    (tmp_path / "journal.py").write_text("MINE = True\n")
    code = "import journal, tapewire.journal as room; assert journal.MINE; assert not hasattr(room, 'MINE')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_room_is_mapped_and_no_other_folder(pyproject: dict[str, Any]) -> None:
    mapped = pyproject["tool"]["scikit-build"]["wheel"]["packages"]
    assert set(mapped.values()) == {"tapewire", *ROOMS}
    assert all((ROOT / folder / "__init__.py").is_file() for folder in mapped.values())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this tree, offline; build/wheel is kept so that only changes are compiled."""
    pytest.importorskip("nanobind")
    pytest.importorskip("scikit_build_core")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command += [f"-Cbuild-dir={ROOT / 'build' / 'wheel'}", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    (built,) = folder.glob("tapewire-*.whl")
    return built


@pytest.mark.slow
def test_wheel_holds_the_rooms_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "tapewire",
        f"tapewire-{tapewire.__version__}.dist-info",
    }
    folders = {name.split("/")[1] for name in names if name.startswith("tapewire/") and name.count("/") > 1}
    assert folders >= ROOMS
    assert not folders & {"tests", "scripts", "native", "build"}
    for needed in ("tapewire/py.typed", "tapewire/_native.pyi", "tapewire/configs/latency.toml"):
        assert needed in names
    assert any(re.fullmatch(r"tapewire/_native\..*\.so", name) for name in names)


@pytest.mark.slow
def test_wheel_works_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    dependencies = Path(pytest.__file__).parents[1]
    # -S: no .pth file is read, so the editable install of this very tree cannot answer instead of the wheel.
    code = f"""
import sys
sys.path[:0] = [{str(tmp_path / "site")!r}]
sys.path.append({str(dependencies)!r})
import importlib.resources, tapewire, tapewire._native, tapewire.journal, tapewire.runtime, tapewire.processes
for module in (tapewire, tapewire._native, tapewire.journal, tapewire.runtime, tapewire.processes):
    assert module.__file__.startswith(sys.path[0]), module.__file__
assert importlib.resources.files("tapewire.configs").joinpath("latency.toml").is_file()
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
