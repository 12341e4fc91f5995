"""Policies driven from Python: both shapes, keeping, copying, and what is refused."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import cohort

ROUND_BASED = ["cmlb", "sclb", "alb-norm", "pmlb", "pmlb-compensated", "cmlb-warm", "sclb-warm", "pmlb-warm", "common"]
ONE_AT_A_TIME = ["random", "linucb-ind", "club", "sclub", "cohort"]


def skip_if_not_kept(policy):
    try:
        pickle.dumps(policy)
    except cohort.BadInput as refused:
        assert "cannot be kept" in str(refused)
        pytest.skip(str(refused))


def make(name, users=6, **more):
    return cohort.Policy(name, users=users, dim=3, rounds=200, **more)


def rounds(count, users=6, seed=0):
    rng = np.random.default_rng(seed)
    thetas = rng.normal(size=(users, 3))
    for _ in range(count):
        contexts = rng.uniform(-1, 1, (5, 3))
        noise = 0.1 * rng.normal(size=users)
        yield contexts, lambda arms, c=contexts, n=noise: (c[arms] * thetas).sum(1) + n


def play(policy, count, seed=0):
    played = []
    for contexts, answer in rounds(count, seed=seed):
        arms = policy.choose(contexts)
        policy.learn(contexts, arms, answer(arms))
        played.append(arms)
    return np.array(played)


@pytest.mark.parametrize("name", ROUND_BASED + ONE_AT_A_TIME)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
@pytest.mark.parametrize("before", [1, 90])
def test_a_copy_goes_on_where_it_was_and_apart(name, copied, before):
    policy = make(name, random_state=4)
    skip_if_not_kept(policy)
    play(policy, before, seed=1)
    other = copied(policy)
    assert (play(policy, 70, seed=2) == play(other, 70, seed=2)).all()
    # And from then on each by itself.
    play(other, 5, seed=3)
    third = copied(policy)
    assert (play(policy, 30, seed=5) == play(third, 30, seed=5)).all()


@pytest.mark.parametrize("name", ONE_AT_A_TIME)
def test_what_is_saved_is_loaded_with_names(name, tmp_path):
    rng = np.random.default_rng(2)
    policy = cohort.Policy(name, dim=3)
    skip_if_not_kept(policy)
    for turn in range(60):
        user, contexts = f"user {turn % 7}", rng.uniform(-1, 1, (4, 3))
        arm = policy.decide(user, contexts)
        policy.learn(user, contexts[arm], float(rng.normal()))
    policy.save(tmp_path / "learned.snapshot", app="shop")
    loaded = cohort.load(tmp_path / "learned.snapshot")
    assert loaded.n_users == 7 and loaded.name == name
    for _ in range(20):
        contexts = rng.uniform(-1, 1, (4, 3))
        for user in ["user 3", "user 6"]:
            assert loaded.decide(user, contexts) == policy.decide(user, contexts)
    with pytest.raises(cohort.BadInput, match="there is no app `other`"):
        cohort.load(tmp_path / "learned.snapshot", app="other")


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "learned.snapshot"
    cohort.Policy("linucb-ind", dim=2).save(path)
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)
    with pytest.raises(cohort.BadInput, match="learned.snapshot is damaged: .*the checksum of block 0"):
        cohort.load(path)


def test_policies_that_work_in_rounds_say_so(tmp_path):
    policy = make("cmlb")
    with pytest.raises(cohort.BadInput, match="policy `cmlb` works in rounds"):
        policy.decide(0, np.ones((2, 3)))
    with pytest.raises(cohort.BadInput, match="works in rounds"):
        policy.save(tmp_path / "no.snapshot")
    # A round that was chosen for elsewhere is learned all the same, for as long as one likes.
    for name in ROUND_BASED:
        policy = make(name)
        for contexts, answer in rounds(40):
            policy.learn(contexts, np.zeros(6, dtype=int), answer(np.zeros(6, dtype=int)))
        assert policy.choose(contexts).shape == (6,)


def test_random_state_is_what_draws_follow_from():
    contexts = np.ones((9, 3))
    drawn = {seed: make("random", random_state=seed).choose(contexts).tolist() for seed in range(4)}
    assert drawn[1] == make("random", random_state=1).choose(contexts).tolist()
    assert len({tuple(arms) for arms in drawn.values()}) == 4
    generator = make("random", random_state=np.random.default_rng(5)).choose(contexts)
    assert (generator == make("random", random_state=np.random.default_rng(5)).choose(contexts)).all()


def test_arrays_are_taken_in_any_form_and_not_copied_where_they_fit():
    policy = make("linucb-ind")
    contexts = np.random.default_rng(0).uniform(-1, 1, (5, 3))
    forms = [contexts, contexts.tolist(), np.asfortranarray(contexts), contexts.repeat(2, 0)[::2]]
    chosen = [policy.choose(form).tolist() for form in forms]
    assert chosen == [chosen[0]] * len(forms)
    assert policy.choose(contexts.astype(np.float32)).dtype == np.int64


def test_what_does_not_fit_is_refused_with_a_sentence():
    policy, contexts = make("linucb-ind"), np.ones((2, 3))
    zeros = np.zeros(6, dtype=int)
    cases = [
        (lambda: cohort.Policy("linucb", dim=3), r"there is no policy `linucb` \(did you mean `linucb-ind`\?\)"),
        (lambda: make("linucb-ind", delt=1), r"no parameter `delt` \(did you mean `delta`\?\)"),
        (lambda: make("linucb-ind", delta=1), r"linucb-ind.delta = 1: expected a number in \(0, 1\)"),
        (lambda: cohort.Policy("cmlb", users=3, dim=2), "policy `cmlb` needs the number of rounds"),
        (lambda: cohort.Policy("cmlb", users=0, dim=2, rounds=9).choose(np.ones((2, 2))), "users: found 0"),
        (lambda: policy.choose(np.ones((2, 4))), r"contexts: found shape \(2, 4\), expected \(arms, 3\)"),
        (lambda: policy.choose(np.full((2, 3), np.nan)), "contexts: NaN at arm 0, coordinate 0"),
        (lambda: policy.choose(np.ones((0, 3))), "contexts: found 0 numbers"),
        (lambda: policy.learn(contexts, zeros + 2, np.ones(6)), "arms: found 2 at 0, expected 0 to 1"),
        (lambda: policy.learn(contexts, zeros - 1, np.ones(6)), "arms: found -1 at 0"),
        (lambda: policy.learn(contexts, zeros + 0.5, np.ones(6)), "arms: found float64, expected whole"),
        (lambda: policy.learn(contexts, zeros[1:], np.ones(6)), r"arms: found shape \(5\), expected \(6\)"),
        (lambda: policy.learn(contexts, zeros, np.full(6, np.inf)), "rewards: found inf at 0"),
        (lambda: policy.decide(-1, contexts), "user: found -1"),
        (lambda: policy.decide(10**12, contexts), "user: found 1000000000000"),
        (lambda: policy.learn(0, contexts, 1.0), r"x: found shape \(2, 3\), expected \(3,\)"),
        (lambda: cohort.maximal_cluster(np.ones((3, 2)), -1), r"gamma: found -1, expected a number in \[0"),
    ]
    for refused, sentence in cases:
        with pytest.raises(cohort.BadInput, match=sentence) as error:
            refused()
        assert isinstance(error.value, ValueError) and "\n" not in str(error.value)


def test_cohort_finds_who_is_alike_and_says_why():
    rng = np.random.default_rng(1)
    centres = np.eye(8)[:3]
    policy = cohort.Cohort(dim=8)
    assert policy.cohorts() == [] and policy.explain("nobody", np.eye(8)) is None
    for turn in range(1200):
        user = turn % 24
        contexts = rng.uniform(-1, 1, (6, 8))
        arm = policy.decide(f"u{user}", contexts)
        policy.learn(f"u{user}", contexts[arm], contexts[arm] @ centres[user % 3] + 0.1 * rng.normal())
    at_large, *cohorts = policy.cohorts()
    assert at_large.number == 0 and len(cohorts) == 3
    assert sorted(tuple(found.members.tolist()) for found in cohorts) == [
        tuple(range(k, 24, 3)) for k in range(3)
    ]
    for found in cohorts:
        assert np.abs(found.centre - centres[found.members[0] % 3]).max() < 0.1
    users = policy.users()
    assert [user.name for user in users] == [f"u{k}" for k in range(24)]
    assert {user.rewards for user in users} == {50.0} and min(user.share for user in users) > 0.9
    assert abs(policy.noise()[0] - 0.1) < 0.02

    contexts = rng.uniform(-1, 1, (6, 8))
    why = policy.explain("u4", contexts)
    assert why.best == policy.decide("u4", contexts) == int(np.argmax(why.score))
    assert np.allclose(why.mean, why.own + why.cohort + why.population)
    assert np.allclose(why.score, why.mean + why.width)
    assert np.allclose(why.score, policy.judge("u4", contexts).score)
    assert why.memberships[0][0] == users[4].cohort
    with pytest.raises(cohort.BadInput, match="has no cohorts"):
        make("linucb-ind")._native.cohorts()


def test_names_and_numbers_do_not_meet():
    policy = make("linucb-ind", users=3)
    with pytest.raises(cohort.BadInput, match="contexts"):
        policy.decide("ann", np.ones((2, 9)))
    contexts = np.eye(3)
    policy.decide("bob", contexts)
    policy.learn("ann", contexts[1], 5.0)
    policy.learn("bob", contexts[2], 5.0)
    policy.learn(0, contexts[0], 5.0)
    assert [policy.decide(user, contexts) for user in [0, "ann", "bob"]] == [0, 1, 2]
    assert policy.n_users == 5


def test_several_threads_may_use_one_policy():
    policy = cohort.Policy("linucb-ind", dim=3)
    contexts = np.random.default_rng(0).uniform(-1, 1, (5, 3))

    def work(user):
        for _ in range(300):
            policy.learn(user, contexts[policy.decide(user, contexts)], 1.0)

    threads = [threading.Thread(target=work, args=(user,)) for user in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = cohort.Policy("linucb-ind", dim=3)
    for _ in range(300):
        alone.learn(0, contexts[alone.decide(0, contexts)], 1.0)
    for user in range(4):
        assert (policy.judge(user, contexts).score == alone.judge(0, contexts).score).all()
