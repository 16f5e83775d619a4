"""Logs, master's report pipe and process watching: the small parts below master and its children."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from tapewire.runtime.environment import process_start_time
from tapewire.runtime.logs import configure_logging, logfmt
from tapewire.runtime.master_report import ReportReader, ReportWriter, RunEnded, RunStarted
from tapewire.runtime.watch import ProcessWatch, describe_exit, tail_lines


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> None:
    yield  # type: ignore[misc]
    structlog.reset_defaults()


def test_log_lines_are_logfmt_with_the_traceback_below() -> None:
    out = io.StringIO()
    configure_logging("md", out)
    log = structlog.get_logger()
    log.info("page rolled", page=7, path="/a b", empty="")
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("failed")
    first, second, *rest = out.getvalue().splitlines()
    assert first.startswith("ts=20")
    assert first.endswith('Z level=info process=md event="page rolled" page=7 path="/a b" empty=""')
    assert "level=error process=md event=failed" in second
    assert rest[-1] == "ValueError: no"


def test_deferred_lines_are_all_written_in_order_and_errors_at_once() -> None:
    out = io.StringIO()
    writer = configure_logging("strategy", out)
    log = structlog.get_logger()
    writer.defer([])
    for number in range(1000):
        log.info("line", number=number)
    log.error("now")
    assert "event=now" in out.getvalue()
    log.info("last")
    writer.stop_deferring()
    lines = out.getvalue().splitlines()
    assert [line.rpartition("number=")[2] for line in lines[:1000]] == [str(n) for n in range(1000)]
    assert "event=last" in lines[-1]
    log.info("direct")
    assert "event=direct" in out.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (1.5, "1.5"), ("", '""'), ("a=b", '"a=b"'), ("two\nlines", r'"two\nlines"')],
)
def test_logfmt(value: object, text: str) -> None:
    assert logfmt(value) == text


def test_reports_come_through_and_the_end_is_seen() -> None:
    read_fd, write_fd = os.pipe()
    reader, writer = ReportReader(read_fd), ReportWriter(write_fd)
    assert reader.read(0) is None
    assert not reader.at_end
    writer.send(RunStarted(0.5, ["a"]))
    writer.send(RunEnded("failed", 1, ["b"], ["md"]))
    assert reader.read(1) == RunStarted(0.5, ["a"])
    assert reader.read(1) == RunEnded("failed", 1, ["b"], ["md"])
    writer.close()
    assert reader.read(1) is None
    assert reader.at_end
    reader.close()


def test_a_launcher_that_has_gone_is_no_error() -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    writer = ReportWriter(write_fd)
    writer.send(RunStarted(0.5))
    writer.close()
    ReportWriter(-1).send(RunStarted(0.5))


def test_watching_a_process_of_somebody_else(tmp_path: Path) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    start_time = process_start_time(sleeper.pid)
    assert start_time is not None

    async def scenario() -> None:
        assert ProcessWatch.attach(sleeper.pid, start_time + 1) is None  # another one with that pid
        watch = ProcessWatch.attach(sleeper.pid, start_time)
        assert watch is not None
        assert not await watch.wait(0.05)
        watch.send_signal(signal.SIGKILL)
        assert await watch.wait(10)
        assert watch.exit_code is None  # not our child to reap
        watch.send_signal(signal.SIGKILL)  # its pid may be another's by now

    asyncio.run(scenario())
    assert sleeper.wait(10) == -9
    assert describe_exit(-9) == "was killed by SIGKILL"
    assert describe_exit(3) == "ended with exit status 3"


def test_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "md.log"
    assert tail_lines(log) == []
    log.write_bytes(b"".join(b"line %d\n" % n for n in range(5000)) + b"caf\xe9\n\n")
    assert tail_lines(log, 2) == ["line 4999", "caf\ufffd"]
    assert tail_lines(log, 3, bytes_max=20) == ["line 4999", "caf\ufffd"]
