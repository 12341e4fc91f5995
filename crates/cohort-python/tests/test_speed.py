"""The engine through Python is nearly as fast as on the command line. The figure that counts is measured by
bench/python_speed.py on a quiet machine; this is a sanity check that a busy one passes."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_a_thousand_users(command, tmp_path):
    script = ROOT / "bench/python_speed.py"
    out = tmp_path / "python.json"
    words = [sys.executable, script, "--command", command, "--policies", "linucb-ind", "--rounds", "300", "--out", out]
    subprocess.run(words, check=True, env={**os.environ, "RAYON_NUM_THREADS": "1"}, timeout=240)
    (row,) = json.loads(out.read_text())["policies"]
    assert row["lab_share"] > 0.6, row
    assert row["loop_share"] > 0.5, row
