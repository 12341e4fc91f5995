"""What tests share: the command line that results are compared with, and a running service."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

import cohort

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def command() -> pathlib.Path:
    """The command, built with the same profile as the wheel."""
    path = pathlib.Path(os.environ.get("COHORT_COMMAND", ROOT / "target/debug/cohort"))
    assert path.exists(), f"{path} is missing: scripts/test-python builds it"
    return path


@pytest.fixture(scope="session")
def run_command(command: pathlib.Path) -> Callable[..., dict]:
    """Runs the command with `--json` and returns what it prints."""

    def run(*args: object) -> dict:
        words = [str(command), *map(str, args), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


class Service:
    """A service on a free port, with its data in a folder."""

    def __init__(self, command: pathlib.Path, data: pathlib.Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.data = data
        self.url = f"http://127.0.0.1:{port}"
        words = [command, "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", data]
        self.log = open(data.parent / f"{data.name}.log", "w")
        self._process = subprocess.Popen(words, stdout=self.log, stderr=subprocess.STDOUT)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        client = cohort.Client(self.url)
        for _ in range(200):
            if client.ready():
                return
            assert self._process.poll() is None, pathlib.Path(self.log.name).read_text()
            time.sleep(0.05)
        raise AssertionError("the service does not become ready")

    def stop(self) -> None:
        self._process.terminate()
        assert self._process.wait(timeout=20) == 0
        self.log.close()


@pytest.fixture
def start_service(command: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[Callable[..., Service]]:
    """Starts services that are stopped in the end."""
    running: list[Service] = []

    def start(data: pathlib.Path | None = None) -> Service:
        folder = data or tmp_path / "data"
        folder.mkdir(parents=True, exist_ok=True)
        running.append(Service(command, folder))
        return running[-1]

    yield start
    for service in running:
        if service._process.poll() is None:
            service.stop()
