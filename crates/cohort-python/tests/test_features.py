"""Dictionaries, tables and categories as features."""

from __future__ import annotations

import copy
import datetime
import pickle

import numpy as np
import pytest

import cohort

FILMS = [
    {"genre": "drama", "year": 1957, "tags": ["war", "court"], "new": False},
    {"genre": "comedy", "year": 1959, "tags": ["war"], "new": True},
    {"genre": "drama", "year": None, "tags": [], "new": True},
]


def test_rows_are_the_same_for_the_same_features():
    features = cohort.Features(dim=24)
    rows = features(FILMS)
    assert rows.shape == (3, 24) and (rows[:, 0] == 1.0).all() and np.isfinite(rows).all()
    assert (features(FILMS[0], learning=False)[0] == features(FILMS, learning=False)[0]).all()
    names = {one["name"]: one for one in features.seen()}
    assert {"item.genre=drama", "item.year", "item.tags=war", "item.new"} <= set(names)
    assert all(0 < one["coordinate"] < 24 and one["sign"] in (-1.0, 1.0) for one in names.values())
    # Nothing changes without learning, and another seed is another encoding.
    before = features.seen()
    features([{"genre": "never seen"}], learning=False)
    assert features.seen() == before
    assert (cohort.Features(dim=24, seed=1)(FILMS) != rows).any()


def test_a_context_and_a_user_interact_with_items():
    features = cohort.Features(dim=64)
    plain = features(FILMS)
    mobile = features(FILMS, context={"device": "mobile"}, user={"age": 30})
    assert (plain != mobile).any()
    names = [one["name"] for one in features.seen()]
    assert "context.device=mobile" in names and "item.genre=drama^context.device=mobile" in names
    alone = cohort.Features(dim=64, interactions=[])
    alone(FILMS, context={"device": "mobile"})
    assert not any("^" in one["name"] for one in alone.seen())


def test_tables_are_rows_of_features():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {
            "genre": pandas.Categorical(["drama", "comedy", "drama"]),
            "year": [1957.0, 1959.0, np.nan],
            "seen": pandas.to_datetime(["2020-01-02", None, "2020-01-02"]),
            "rated": pandas.array([1, None, 3], dtype="Int64"),
        }
    )
    features = cohort.Features(dim=32)
    rows = features(table)
    as_dictionaries = [
        {"genre": "drama", "year": 1957.0, "seen": "2020-01-02T00:00:00", "rated": 1},
        {"genre": "comedy", "year": 1959.0, "seen": None, "rated": None},
        {"genre": "drama", "year": None, "seen": "2020-01-02T00:00:00", "rated": 3},
    ]
    assert (rows == cohort.Features(dim=32)(as_dictionaries)).all()
    table.columns = ["a", "a", "b", "c"]
    with pytest.raises(cohort.BadInput, match="expected each name once"):
        features(table)


def test_values_of_numpy_and_of_dates_are_taken():
    features = cohort.Features(dim=32)
    item = {
        "count": np.int64(3),
        "share": np.float32(0.5),
        "is": np.bool_(True),
        "embedding": np.array([0.1, 0.2]),
        "words": {"b", "a"},
        "day": datetime.date(2026, 1, 2),
        "größe ✓ 大": "groß",
    }
    assert np.isfinite(features([item])).all()
    assert "item.größe ✓ 大=groß" in [one["name"] for one in features.seen()]


def test_a_policy_learns_with_them_and_its_weights_have_names():
    features, policy = cohort.Features(dim=16), cohort.Policy("linucb-ind", dim=16)
    for _ in range(60):
        for film in FILMS:
            policy.learn("ann", features(film)[0], 1.0 if film["genre"] == "comedy" else 0.0)
    assert policy.decide("ann", features(FILMS)) == 1
    weights = features.weights(policy.coefficients("ann").mean)
    assert weights["item.genre=comedy"] > weights["item.genre=drama"]


def test_copies_go_on_where_they_were():
    features = cohort.Features(dim=16, seed=3, interactions=[("item", "item")])
    rows = features(FILMS)
    for copied in (copy.deepcopy(features), pickle.loads(pickle.dumps(features))):
        assert (copied(FILMS, learning=False) == features(FILMS, learning=False)).all()
        assert copied.seen() == features.seen() and rows.shape == (3, 16)


def test_what_is_no_feature_is_refused_with_a_sentence():
    features = cohort.Features(dim=8)
    endless: dict[str, object] = {}
    endless["again"] = endless
    deep: dict[str, object] = {}
    for _ in range(20):
        deep = {"a": deep, "b": 1}
    cases = [
        (lambda: cohort.Features(dim=-3), "dim: found -3, expected a whole number from 1 to 4096"),
        (lambda: cohort.Features(dim=2.5), "dim: found 2.5"),
        (lambda: cohort.Features(seed=-1), "seed: found -1"),
        (lambda: features("drama"), "items: found str, expected dictionaries"),
        (lambda: features([1.0]), "item 0: found float, expected a dictionary"),
        (lambda: features([{"a": 1}, {"a": "NaN"}]), "item 1: .*NaN"),
        (lambda: features([{"a": float("inf")}]), "item 0: .*JSON compliant"),
        (lambda: features([{"a": object()}]), "item 0: .*not JSON serializable"),
        (lambda: features([{"a": [1, "b"]}]), "item 0: "),
        (lambda: features([{1: 2, "1": 3}]), "item 0: .*expected each once"),
        (lambda: features([endless]), "item 0: "),
        (lambda: features([deep]), "item 0: "),
        (lambda: features([{}], context=[1]), "context: found list"),
        (lambda: features.weights([1.0]), "coefficients: found 1 numbers, expected 8"),
    ]
    for refused, sentence in cases:
        with pytest.raises(cohort.BadInput, match=sentence):
            refused()
    assert features.seen() == []


def test_words_given_to_a_policy_are_told_where_to_go():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"genre": ["drama", "war"], "year": [1957, 1959]})
    policy = cohort.Cohort(dim=2)
    for bad in (table, FILMS, [["drama", 1.0]]):
        with pytest.raises(cohort.BadInput, match=r"cohort\.Features"):
            policy.decide("ann", bad)
