"""Results and how they are shown; Ctrl-C; progress; errors; the reproduction."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import matplotlib
import numpy as np
import pytest

import cohort
from cohort.progress import watcher

matplotlib.use("agg")

SMALL = {"users": 10, "clusters": 2, "dim": 3, "arms": 4, "rounds": 25}


@pytest.fixture(scope="module")
def result():
    return cohort.simulate("clustered", "linucb-ind,oracle", reps=3, keep_arms=True, **SMALL)


def test_a_result_is_arrays_and_a_mapping(result):
    assert result.regret.shape == result.reward.shape == (2, 3, 25)
    assert result.arms.shape == (2, 3, 25, 10) and result.arms.dtype == np.int64
    assert list(result) == result.policies == ["linucb-ind", "oracle"] and len(result) == 2
    one = result["oracle"]
    assert (one.regret == result.regret[1]).all()
    assert np.allclose(one.regret_per_rep, one.cumulative_regret[:, -1])
    assert np.isclose(one.regret_mean, result.regret[1].sum(axis=1).mean())
    assert one.checkpoints[-1] == 25 and (one.clusters[:, -1] == 2).all()
    assert (one.adjusted_rand[:, -1] == 1).all()
    assert "oracle: regret" in repr(result) and "3 repetitions" in repr(result)


def test_tables_for_pandas_and_polars(result):
    frame = result.to_pandas()
    assert list(frame.columns) == ["policy", "repetition", "round", "regret", "cumulative_regret", "reward"]
    assert len(frame) == 2 * 3 * 25
    last = frame[(frame["policy"] == "oracle") & (frame["round"] == 25)]
    assert np.allclose(last["cumulative_regret"], result["oracle"].regret_per_rep)
    other = result.to_polars()
    assert other.shape == frame.shape and other["regret"].to_list() == frame["regret"].tolist()


def test_figures(result):
    axes = result.plot()
    assert [line.get_label() for line in axes.lines] == result.policies
    assert np.allclose(axes.lines[1].get_ydata()[-1], result["oracle"].regret_mean)
    band = axes.collections[1].get_paths()[0].vertices[:, 1]
    assert np.isclose(band.max() - band.min() > 0, True)
    assert result.plot(axes, reward=True) is axes
    shown = result._repr_html_()
    assert shown.count("<svg") == 1 and "<td>oracle</td>" in shown


def test_bands_are_those_of_the_engine(result):
    one = result["oracle"]
    half = cohort._engine.half_widths(np.ascontiguousarray(one.cumulative_regret))
    assert np.isclose(half[-1], one.regret_ci95)


def test_errors_have_the_sentences_of_the_command(command):
    cases = [
        (["--env", "clusterd"], lambda: cohort.simulate("clusterd")),
        (["--policy", "cmbl"], lambda: cohort.simulate(policies="cmbl")),
        (["--rounds", "0"], lambda: cohort.simulate(rounds=0)),
        (["--noise", "-1"], lambda: cohort.simulate(noise=-1)),
        (["--env", "gaussian", "--clusters", "3"], lambda: cohort.simulate("gaussian", clusters=3)),
        (["--env", "table"], lambda: cohort.simulate("table")),
        (["none.toml"], lambda: cohort.simulate("none.toml")),
    ]
    for words, ours in cases:
        theirs = subprocess.run([command, "simulate", *words], capture_output=True, text=True)
        assert theirs.returncode == 2
        with pytest.raises(cohort.BadInput) as error:
            ours()
        assert f"error: {error.value}" == theirs.stderr.strip()


def test_what_is_no_number_is_refused():
    with pytest.raises(cohort.BadInput, match="noise: found list, expected a number, a word"):
        cohort.simulate(noise=[1])
    with pytest.raises(cohort.BadInput, match="env: found float, expected a name"):
        cohort.simulate(1.5)
    with pytest.raises(cohort.BadInput, match="oracle.x: found oracle, expected one of the policies that play: cmlb"):
        cohort.simulate(policies="cmlb", **{"oracle.x": 1})


def test_progress_is_told_and_its_exceptions_stop_the_run():
    told = []
    long = {"rounds": 10**6, "users": 50, "reps": 1}

    def look(done, planned, what):
        told.append((done, planned))
        if len(told) == 3:
            raise LookupError("seen enough")

    started = time.monotonic()
    with pytest.raises(LookupError, match="seen enough"):
        cohort.simulate(policies="linucb-ind", progress=look, **long)
    assert time.monotonic() - started < 10
    assert told[0][0] < told[2][0] < told[2][1] == 10**6


def test_progress_is_one_line_in_a_terminal_and_nothing_in_a_pipe(monkeypatch):
    assert watcher(None)[0] is None and watcher(False)[0] is None
    monkeypatch.setattr("cohort.progress._QUIET_SECONDS", 0.0)
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    tell, clear = watcher(True)
    tell(1, 4, "fig1")
    clear()
    assert " 25%" in shown.getvalue() and "left  fig1" in shown.getvalue()
    assert shown.getvalue().endswith("\r\x1b[K")


def test_progress_is_one_line_in_a_notebook(monkeypatch):
    shown = []

    class Handle:
        def update(self, content, raw):
            shown.append(content["text/plain"])

    def display(content, raw, display_id):
        shown.append(content["text/plain"])
        return Handle()

    monkeypatch.setattr("cohort.progress._notebook_display", lambda: display)
    monkeypatch.setattr("cohort.progress._QUIET_SECONDS", 0.0)
    tell, clear = watcher(None)
    tell(1, 2, "")
    tell(2, 2, "")
    clear()
    assert " 50%" in shown[0] and "100%" in shown[1] and shown[2] == ""


LONG_RUN = """
import cohort, sys
print("started", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "call",
    [
        "cohort.simulate(policies='linucb-ind', rounds=10**8, users=100)",
        "cohort.reproduce('scaling', quick=False, out=sys.argv[1])",
    ],
)
def test_ctrl_c_stops_a_long_run(call, tmp_path):
    words = [sys.executable, "-c", LONG_RUN.format(call=call), str(tmp_path / "report")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "started\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    assert process.stdout.readline() == "interrupted\n"
    assert process.wait(timeout=20) == 0 and time.monotonic() - started < 15


def test_other_threads_go_on_while_the_engine_works():
    count, stop = [0], threading.Event()

    def tick():
        while not stop.is_set():
            count[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    points = np.random.default_rng(0).normal(size=(60_000, 8))
    before, started = count[0], time.monotonic()
    cohort.maximal_cluster(points, 1.0)
    seconds, ticks = time.monotonic() - started, count[0] - before
    stop.set()
    thread.join()
    assert ticks >= 1 and ticks > 20 * seconds, f"{ticks} ticks in {seconds} s"


def test_a_study_of_the_paper(tmp_path):
    report = cohort.reproduce("scaling-personal", out=tmp_path, reps=1, progress=False)
    assert report.page.exists() and report.figures() and "scaling-personal-curves" in report.tables()
    assert report.claims and all(claim.study == "scaling-personal" for claim in report.claims)
    assert {claim.verdict for claim in report.claims} <= {
        "reproduced",
        "partly",
        "not",
        "not reached",
        "undecided",
        "not run",
    }
    assert "report:" in repr(report) and "<table>" in report._repr_html_()
    with pytest.raises(cohort.BadInput, match=r"found `figg1`, expected one of .* \(did you mean `fig1`\?\)"):
        cohort.reproduce("figg1", out=tmp_path)


def test_listings():
    names = [policy["name"] for policy in cohort.policies()]
    assert "cohort" in names and "linucb-ind" in names
    delta = next(p for p in cohort.policies() if p["name"] == "linucb-ind")["parameters"]
    assert {"name", "default", "range", "meaning"} == set(delta[0])
    assert [env["name"] for env in cohort.environments()][0] == "clustered"
    assert cohort.__version__.count(".") == 2
