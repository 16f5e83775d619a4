"""README's commands and snippets, run in its order as a newcomer would."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What make and the shell do for the reader before the first command.
NOT_OURS = ("make", "source")


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall(README.read_text())


def write_recording(path: Path) -> None:
    bids = [[f"{100 - i}.00", "1.00000"] for i in range(3)]
    asks = [[f"{101 + i}.00", "1.00000"] for i in range(3)]
    messages: list[dict[str, object]] = [{"lastUpdateId": 10, "bids": bids, "asks": asks}]
    for i in range(11, 200):
        data = {"e": "depthUpdate", "E": i, "s": "BTCUSDT", "U": i, "u": i, "a": []}
        data["b"] = [["100.00", f"{i}.0"]]
        messages.append({"stream": "btcusdt@depth@100ms", "data": data})
    lines = [f"{1_723_161_253_000_000_000 + i} {json.dumps(m)}\n" for i, m in enumerate(messages)]
    path.write_bytes(gzip.compress("".join(lines).encode()))


def test_readme(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment.pop("TAPEWIRE_RUNS", None)
    write_recording(tmp_path / "RECORDING.gz")
    ran = []
    for language, text in blocks():
        if language == "python" and text.startswith("# mine.py"):
            (tmp_path / "mine.py").write_text(text)
            continue
        if language == "python":
            newest = max((tmp_path / "runs").glob("demo-*"), key=lambda p: p.stat().st_mtime)
            code, count = re.subn(r'"runs/[^"]+"', repr(str(newest)), text)
            assert count == 1
            commands = [[sys.executable, "-c", code]]
        else:
            lines = [shlex.split(line, comments=True) for line in text.splitlines()]
            commands = [words for words in lines if words and words[0] not in NOT_OURS]
        for command in commands:
            result = subprocess.run(
                command,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            assert result.returncode == 0, f"{shlex.join(command)}\n{result.stdout}\n{result.stderr}"
            ran.append(command)
    assert len(ran) >= 10
    orders = subprocess.run(
        ["tapewire", "orders", "last", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=True,
    )
    assert json.loads(orders.stdout), "the strategy of README sent no order"


def test_what_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    assert links
    missing = [link for link in links if "://" not in link and not (README.parent / link).exists()]
    assert not missing
