"""The notebooks run, and so do the examples in docstrings and in docs/python.md."""

from __future__ import annotations

import doctest
import importlib
import pathlib
import pkgutil
import re
import subprocess
import textwrap

import nbformat
import pytest
from nbclient import NotebookClient

import cohort

ROOT = pathlib.Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
MODULES = [f"cohort.{module.name}" for module in pkgutil.iter_modules(cohort.__path__)]


def test_there_are_three_notebooks():
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, command, monkeypatch, tmp_path):
    monkeypatch.setenv("COHORT_COMMAND", str(command))
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "notebooks are kept without outputs"
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert shown


@pytest.mark.parametrize("name", [name for name in ["cohort", *MODULES] if name != "cohort._engine"])
def test_docstrings(name):
    module = importlib.import_module(name)
    assert module.__doc__
    assert doctest.testmod(module).failed == 0


def test_everything_public_is_documented():
    for name in cohort.__all__:
        if name != "__version__":
            assert getattr(cohort, name).__doc__, name


def test_the_quick_start_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 5
    names: dict = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)


def test_every_call_of_the_client_is_in_the_document():
    text = (ROOT / "docs/python.md").read_text().partition("## The service")[2]
    calls = [name for name in dir(cohort.Client) if not name.startswith("_")]
    assert [name for name in calls if not re.search(rf"\b{name}\b", text)] == []


def test_the_client_does_what_the_document_says(start_service):
    text = (ROOT / "docs/python.md").read_text().partition("## The service")[2]
    blocks = re.findall(r"```py\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 3
    url, names = start_service().url, {"cohort": cohort}
    for block in blocks:
        block = block.replace("http://127.0.0.1:7700", url)
        if "await" in block:
            block = "import asyncio\nasync def main():\n" + textwrap.indent(block, "    ") + "asyncio.run(main())\n"
        exec(compile(block, "docs/python.md", "exec"), names)
    assert not names["slate"]["top"].fallback and names["client"].show_app()["rewards"] == 5


def test_ten_minutes_are_as_the_document_says(start_service, command, tmp_path, monkeypatch, capsys):
    """Block by block; only where the service is differs."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/ten-minutes.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 6
    url, names = start_service().url, {}
    for block in blocks:
        block = block.replace("http://127.0.0.1:7700", url)
        exec(compile(block, "docs/ten-minutes.md", "exec"), names)
    said = capsys.readouterr().out
    assert "12 items" in said and "600 rewards learned" in said
    # And in the terminal, word by word.
    shell = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    words = [line.partition("#")[0].split() for block in shell for line in block.splitlines()]
    assert ["pip", "install", "."] in words and ["cohort", "serve", "--data-dir", "shop-data"] in words
    insights = [line for line in words if line[:2] == ["cohort", "insight"]]
    assert len(insights) == 2
    for line in insights:
        done = subprocess.run([command, *line[1:], "--url", url], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
    judged = cohort.evaluate("log.csv", ["logged", "random"])
    assert judged.rows >= 3600 and judged.unknown_choices == 0
    # The file's rows are learned, and are no decisions of the policy.
    curve = names["client"].insight()["curve"]
    assert curve["policy"]["count"] + curve["control"]["count"] == 3000
