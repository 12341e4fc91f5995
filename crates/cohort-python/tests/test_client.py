"""The client against a real service, and against one that loses answers."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
import time

import numpy as np
import pytest

import cohort

ITEMS = {"tea": [0.9, 0.1], "coffee": [0.1, 0.9]}


def test_decide_and_reward(start_service):
    client = cohort.Client(start_service().url, app="shop")
    created = client.create_app("shop", dim=2, policy="linucb-ind", epsilon=0.0)
    assert created["app"]["dim"] == 2 and [app["name"] for app in client.apps()] == ["shop"]
    for _ in range(30):
        decision = client.decide("ann", ITEMS)
        assert client.reward(decision, float(decision.item == "coffee")) == "learned"
    assert client.decide("ann", ITEMS).item == "coffee"
    # The same id is the same decision, and a reward is learned once.
    first = client.decide("ann", ITEMS, decision_id="d1", explain=True)
    again = client.decide("ann", ITEMS, decision_id="d1")
    assert (first.id, first.item, first.ranking) == (again.id, again.item, again.ranking)
    assert first.explanation[0]["item"] == first.item
    assert [client.reward("d1", 1.0), client.reward("d1", 0.0)] == ["learned", "repeated"]
    assert client.decision("d1")["status"] == "rewarded"
    with pytest.raises(cohort.ServiceError) as refused:
        client.decide("bob", ITEMS, decision_id="d1")
    assert (refused.value.code, refused.value.status) == ("decision_reused", 409)
    with pytest.raises(cohort.ServiceError, match="never") as refused:
        client.reward("never was", 1.0)
    assert refused.value.code == "decision_unknown"


def test_batches_the_catalogue_and_activation(start_service):
    client = cohort.Client(start_service().url, app="shop")
    client.create_app("shop", dim=2)
    client.put_items(ITEMS)
    assert client.items() == ["coffee", "tea"]
    decisions = client.decide_batch(["ann", "bob"], ["tea", "coffee"])
    assert client.rewards([(decisions[0], 1.0), ("no such", 1.0)])[0] == "learned"
    assert client.rewards([("no such", 1.0)])[0].code == "decision_unknown"
    later = client.decide("cem", ["tea"], shown=False)
    with pytest.raises(cohort.ServiceError) as refused:
        client.reward(later, 1.0)
    assert refused.value.code == "not_shown"
    client.activate(later)
    assert client.reward(later, 1.0) == "learned"
    client.remove_item("tea")
    assert client.items() == ["coffee"]
    assert client.change_app(epsilon=0.5)["epsilon"] == 0.5 and client.show_app()["epsilon"] == 0.5
    client.delete_app("shop")
    with pytest.raises(cohort.ServiceError) as refused:
        client.show_app()
    assert refused.value.code == "app_deleted"


def test_what_a_service_has_learned_is_loaded_into_python(start_service):
    service = start_service()
    client = cohort.Client(service.url, app="shop")
    client.create_app("shop", dim=2, policy="linucb-ind")
    for user, liked in [("ann", "coffee"), ("bob", "tea")] * 20:
        decision = client.decide(user, ITEMS)
        client.reward(decision, float(decision.item == liked))
    service.stop()
    snapshot = max((service.data / "snapshots").glob("*.snapshot"))
    policy = cohort.load(snapshot, app="shop")
    contexts = list(ITEMS.values())
    assert [policy.decide(user, contexts) for user in ["ann", "bob"]] == [1, 0]


def test_a_service_starts_from_what_was_learned_in_python(start_service, tmp_path):
    policy = cohort.Policy("linucb-ind", dim=2)
    for user, liked in [("ann", 1), ("bob", 0)] * 20:
        arm = policy.decide(user, list(ITEMS.values()))
        policy.learn(user, list(ITEMS.values())[arm], float(arm == liked))
    data = tmp_path / "trained"
    policy.save(data / "snapshots" / f"{0:020}.snapshot", app="shop")
    client = cohort.Client(start_service(data).url, app="shop")
    for user in ["ann", "bob"]:
        told = client.decide(user, ITEMS, explain=True)
        judged = policy.judge(user, [ITEMS[item] for item in told.ranking])
        assert [said["score"] for said in told.explanation] == judged.score.tolist()
    assert client.decide("ann", ITEMS).item == "coffee" and client.decide("bob", ITEMS).item == "tea"


class Flaky(http.server.BaseHTTPRequestHandler):
    """Loses answers, or is at its limit, as it is told."""

    plan: list[str] = []
    seen: list[dict] = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append(body)
        what = self.plan.pop(0)
        if what == "lose":
            self.close_connection = True
            return
        limit = {"error": {"code": "busy", "message": "come back later"}}
        good = {"decision_id": body.get("decision_id"), "item": "a", "ranking": ["a"], "probability": 1.0}
        if what == "rewards":
            good = {"outcomes": [{"outcome": f"learned {one['decision_id']}"} for one in body["rewards"]]}
        content = json.dumps(limit if what == "busy" else good).encode()
        self.send_response(503 if what == "busy" else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def flaky():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Flaky.seen = []
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_decide_is_sent_again_with_the_same_id(flaky):
    Flaky.plan = ["lose", "busy", "lose", "good"]
    decision = cohort.Client(flaky, app="shop").decide("ann", {"a": np.ones(2)})
    assert len(Flaky.seen) == 4 and {body["decision_id"] for body in Flaky.seen} == {decision.id}


def test_what_must_not_be_done_twice_is_not_sent_twice(flaky):
    Flaky.plan = ["busy", "lose", "good"]
    with pytest.raises(cohort.ServiceError, match="is the service running there"):
        cohort.Client(flaky).create_app("shop", dim=2)
    assert len(Flaky.seen) == 2


def test_patience_has_an_end(flaky):
    Flaky.plan = ["busy"] * 3
    with pytest.raises(cohort.ServiceError, match="come back later") as refused:
        cohort.Client(flaky, app="shop", retries=2).reward("d", 1.0)
    assert refused.value.status == 503 and len(Flaky.seen) == 3
    assert not cohort.Client("http://127.0.0.1:9").ready()
    with pytest.raises(cohort.BadInput, match="expected http://HOST:PORT"):
        cohort.Client("127.0.0.1:7700")
    with pytest.raises(cohort.BadInput, match="app: found nothing"):
        cohort.Client(flaky).decide("ann", ITEMS)


class _AtItsLimit(http.server.BaseHTTPRequestHandler):
    """A service whose journal failed: it asks to come back in half a minute, for ever."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        said = json.dumps({"error": {"code": "journal_failed", "message": "no"}}).encode()
        self.send_response(503)
        self.send_header("Retry-After", "30")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


class _Silent(_AtItsLimit):
    """One that takes requests and answers one byte a second."""

    def do_POST(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        try:
            for _ in range(20):
                self.wfile.write(b"{")
                self.wfile.flush()
                time.sleep(0.3)
        except OSError:
            pass


@pytest.mark.parametrize("handler", [_AtItsLimit, _Silent])
def test_a_call_ends_within_its_timeout_and_the_fallback_is_shown(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with cohort.Client(f"http://127.0.0.1:{server.server_port}", "shop", timeout=1.0) as client:
            began = time.monotonic()
            with pytest.raises(cohort.ServiceError):
                client.decide("ann", ITEMS)
            decision = client.decide("ann", ITEMS, fallback="coffee", timeout=0.5)
            assert time.monotonic() - began < 4.0
            assert decision.item == "coffee" and decision.fallback
            assert decision.ranking == ["coffee", "tea"]
            assert client.reward(decision, 1.0) == "fallback", "it was not the service that chose"
        with pytest.raises(cohort.BadInput, match="closed"):
            client.decide("ann", ITEMS)
    finally:
        server.shutdown()
        server.server_close()


class _BreaksOff(http.server.BaseHTTPRequestHandler):
    """Sends all of a log and not the end of the transfer."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):  # noqa: N802
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\na,b\r\n\r\n")
        self.close_connection = True

    def log_message(self, *_):
        pass


def test_a_log_that_breaks_off_replaces_no_file(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _BreaksOff)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    path = tmp_path / "log.csv"
    path.write_text("as it was")
    try:
        with cohort.Client(f"http://127.0.0.1:{server.server_port}", "shop", retries=1) as client:
            with pytest.raises(cohort.ServiceError, match="broke off before its end"):
                client.download_log(path)
    finally:
        server.shutdown()
        server.server_close()
    assert path.read_text() == "as it was"


def test_users_keys_insight_and_the_log(start_service, tmp_path):
    client = cohort.Client(start_service().url, app="shop")
    client.create_app("shop", dim=2)
    for user in ("ann", "bob"):
        client.reward(client.decide(user, ITEMS), 1.0)
    assert client.insight()["decisions"] == 2
    assert client.user("ann")["user"] == "ann"
    assert [one["status"] for one in client.export_user("ann")["decisions"]] == ["rewarded"]
    log = client.download_log(tmp_path / "log.csv")
    assert len(log.read_text().splitlines()) == 3
    client.forget_user("ann")
    with pytest.raises(cohort.ServiceError) as refused:
        client.user("ann")
    assert refused.value.code == "user_unknown"
    key = client.add_key(["read"], expires_ms=1)
    assert key["key"].startswith("ck_") and key["scopes"] == ["read"]
    assert [one["id"] for one in client.keys()][1:] == [key["id"]]
    client.remove_key(key["id"])
    assert len(client.keys()) == 1
    with pytest.raises(cohort.BadInput, match="csv or .parquet"):
        client.download_log(tmp_path / "log.txt")


def test_the_same_with_asyncio(start_service):
    url = start_service().url

    async def ask() -> int:
        async with cohort.AsyncClient(url, app="shop") as client:
            await client.create_app("shop", dim=2)
            users = [f"user-{number}" for number in range(20)]
            decisions = await asyncio.gather(*(client.decide(user, ITEMS) for user in users))
            outcomes = await asyncio.gather(*(client.reward(one, 1.0) for one in decisions))
            assert set(outcomes) == {"learned"}
            return (await client.show_app())["rewards"]

    assert asyncio.run(ask()) == 20


def public(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_") and callable(getattr(of, name))}


def test_asyncio_has_every_call():
    assert public(cohort.AsyncClient) == public(cohort.Client)
    assert all(asyncio.iscoroutinefunction(getattr(cohort.AsyncClient, name)) for name in public(cohort.Client))


def test_the_best_of_the_catalogue_slates_and_logs_of_the_past(start_service):
    client = cohort.Client(start_service().url, app="shop")
    client.create_app("shop", dim=2, epsilon=0.0)
    client.put_items({**ITEMS, "milk": [0.5, 0.5]}, attributes={"tea": {"hot": True}, "coffee": {"hot": True}})
    hot = client.best("ann", 5, filter={"hot": True}, exclude=["coffee"])
    assert hot.item == "tea" and hot.ranking == ["tea"]
    assert client.reward(hot, 1.0) == "learned"
    best = client.best("ann", 2, decision_id="b", explain=True)
    assert len(best.ranking) == 2 and len(best.explanation) == 2
    assert client.best("ann", 2, decision_id="b").item == best.item
    slate = client.slate("ann", ["top", {"id": "side", "exclude": ["tea"]}], slate_id="s")
    assert list(slate) == ["top", "side"] and slate["side"].item != "tea"
    assert slate["top"].id == "s/top" and slate["top"].item != slate["side"].item
    assert client.rewards([(one, 1.0) for one in slate.values()]) == ["learned", "learned"]
    own = client.slate("bob", ["top"], items={"cake": [1.0, 1.0]}, shown=False)["top"]
    assert own.item == "cake"
    client.activate(own)
    assert client.reward(own, 0.5) == "learned"
    past = [
        {"user": f"user {n}", "item": "tea", "reward": n % 2, "features": ITEMS["tea"], "decision_id": f"p{n}"}
        for n in range(1200)
    ]
    past[700]["reward"] = 1e9
    told = client.learn_history(past)
    assert told["learned"] == 1199 and [other["at"] for other in told["others"]] == [700]
    again = client.learn_history(past[:2])
    assert again["learned"] == 0 and [other["at"] for other in again["others"]] == [0, 1]


def test_features_of_an_app_that_takes_json(start_service):
    client = cohort.Client(start_service().url, app="films")
    client.create_app("films", features="json")
    films = {"a": {"genre": "war"}, "b": {"genre": "comedy"}}
    for _ in range(3):
        client.reward(client.decide("ann", films), 1.0)
    names = {feature["name"] for feature in client.features()["features"]}
    assert {"item.genre=war", "item.genre=comedy"} <= names
    assert client.features(user="ann")["features"]
    with pytest.raises(cohort.ServiceError) as refused:
        client.features(cohort=7)
    assert refused.value.status == 404
    with pytest.raises(cohort.BadInput, match="one of them"):
        client.features(user="ann", cohort=1)


def test_fallbacks_are_shown_and_never_sent(flaky):
    with cohort.Client(flaky, app="shop", retries=0) as client:
        Flaky.plan = ["busy"] * 3
        chosen = client.decide("ann", ITEMS, fallback="tea")
        best = client.best("ann", fallback="tea")
        assert best.fallback and best.item == "tea" and best.ranking == ["tea"]
        slate = client.slate("ann", ["top", {"id": "side"}], fallback={"side": "tea", "top": "milk"})
        assert [(name, one.item, one.fallback) for name, one in slate.items()] == [
            ("top", "milk", True),
            ("side", "tea", True),
        ]
        assert Flaky.seen[2]["slate_id"] + "/top" == slate["top"].id
        sent = len(Flaky.seen)
        fallbacks = [chosen, best, *slate.values()]
        for one in fallbacks:
            assert client.reward(one, 1.0) == "fallback"
            client.activate(one)
        assert client.rewards([(one, 1.0) for one in fallbacks]) == ["fallback"] * 4
        assert len(Flaky.seen) == sent, "the service does not know them"
        Flaky.plan = ["rewards"]
        assert client.rewards([(chosen, 1.0), ("d1", 2.0), (best, 1.0), ("d2", 3.0)]) == [
            "fallback",
            "learned d1",
            "fallback",
            "learned d2",
        ]
        assert [one["decision_id"] for one in Flaky.seen[-1]["rewards"]] == ["d1", "d2"]
        with pytest.raises(cohort.BadInput, match="an item for every slot"):
            client.slate("ann", ["top", "side"], fallback={"top": "tea"})
