"""The command that comes with the package."""

from __future__ import annotations

import pathlib
import signal
import socket
import subprocess
import sys
import time

import cohort

COMMAND = pathlib.Path(sys.executable).with_name("cohort")


def test_it_is_installed_and_says_what_the_program_says(command):
    for words in (["--help"], ["policies"], ["evaluate", "/nowhere.csv"], ["simulate", "--reps", "none"], []):
        ours = subprocess.run([COMMAND, *words], capture_output=True, check=False)
        program = subprocess.run([command, *words], capture_output=True, check=False)
        module = subprocess.run([sys.executable, "-m", "cohort", *words], capture_output=True, check=False)
        assert (ours.returncode, ours.stdout, ours.stderr) == (program.returncode, program.stdout, program.stderr)
        assert (module.returncode, module.stdout) == (ours.returncode, ours.stdout)


def test_it_serves_and_stops_when_asked(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [COMMAND, "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", tmp_path / "data"]
    service = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        with cohort.Client(f"http://127.0.0.1:{port}", app="shop") as client:
            for _ in range(200):
                if client.ready():
                    break
                time.sleep(0.05)
            client.create_app("shop", dim=2)
            assert client.decide("ann", {"tea": [1.0, 0.0]}).item == "tea"
        service.send_signal(signal.SIGINT)
        assert service.wait(timeout=20) == 0
    finally:
        service.kill()
    assert "listening" in service.stdout.read()
