"""A policy written in Python in the arena, beside those of the registry."""

from __future__ import annotations

import pytest
from plain_linucb import PlainLinUcb

import cohort


class Own(PlainLinUcb):
    """As the arena makes it: told the problem."""

    def __init__(self, problem):
        super().__init__(problem.users, problem.dim, problem.sigma)


def test_a_policy_of_ones_own_is_on_the_leaderboard(tmp_path):
    board = cohort.arena(
        [Own, "random", "linucb-ind"], only=["clusters", "alike"], out=tmp_path, progress=False
    )
    assert (board.numbers["mode"], board.numbers["reps"]) == ("quick", 1)
    assert {standing["policy"] for standing in board.published} == {"Own", "random", "linucb-ind"}
    assert board.rank("random") == 3.0
    # Both are the same algorithm: the same arms in the same worlds.
    for protocol in board.numbers["protocols"]:
        regrets = {row["policy"]: row["regret"] for row in protocol["published"]}
        assert regrets["Own"] == pytest.approx(regrets["linucb-ind"], rel=1e-9)
    assert board.page.exists() and (board.folder / "figures/alike.svg").exists()
    assert "Own" in repr(board) and "Own" in board._repr_html_()
    with pytest.raises(cohort.BadInput, match="one that was ranked"):
        board.rank("club")


def test_it_plays_only_where_all_users_see_the_same_arms(tmp_path):
    board = cohort.arena(
        [Own, "random"], only="sclub-synthetic", out=tmp_path, progress=False
    )
    assert [standing["policy"] for standing in board.published] == ["random"]


def test_what_is_wrong_is_said(tmp_path):
    class Broken(Own):
        def choose(self, contexts):
            raise RuntimeError("no arm today")

    with pytest.raises(RuntimeError, match="no arm today"):
        cohort.arena([Broken, "random"], only="alike", out=tmp_path, progress=False)
    with pytest.raises(cohort.BadInput, match="did you mean `alike`"):
        cohort.arena("random", only="alik3", out=tmp_path, progress=False)
    with pytest.raises(cohort.BadInput, match="names alone"):
        cohort.arena(cohort.Contender("lints", v=1.0), only="alike", out=tmp_path, progress=False)
