"""The published clients of Azure Personalizer against a running service, unchanged."""

from __future__ import annotations

import datetime
import io
import json
import os
import pathlib
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from azure.ai.personalizer import PersonalizerAdministrationClient
from azure.ai.personalizer import PersonalizerClient as NewClient
from azure.cognitiveservices.personalizer import PersonalizerClient as OldClient
from azure.cognitiveservices.personalizer.models import RankableAction, RankRequest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError
from msrest.authentication import CognitiveServicesCredentials
from msrest.exceptions import HttpOperationError

import cohort

HERE = pathlib.Path(__file__).parent
ACTIONS = [
    {"id": "News", "features": [{"topic": "news", "length": 4}]},
    {"id": "Sports", "features": [{"topic": "sports", "length": 6}, {"tags": ["ball", "live"]}]},
    {"id": "Entertainment", "features": [{"topic": "fun", "embedding": [0.1, 0.7]}]},
]
CONTEXT = [{"device": {"os": "ios", "mobile": True}, "hour": 18, "page": None}, {"_user": "ann"}]
SLOTS = [
    {"id": "top", "features": [{"size": "large"}], "baselineAction": "News"},
    {"id": "side", "features": [{"size": "small"}], "excludedActions": ["News"], "baselineAction": "Sports"},
]


@pytest.fixture
def service(start_service):
    return start_service()


def new_clients(endpoint, key="any"):
    credential = AzureKeyCredential(key)
    return NewClient(endpoint, credential), PersonalizerAdministrationClient(endpoint, credential)


def with_service(**changed):
    """A configuration as it is at first, with some of it changed."""
    return lambda admin: admin.update_service_configuration({**admin.get_service_configuration(), **changed})


def test_the_new_python_client(service):
    client, admin = new_clients(service.url)
    ranked = client.rank({"contextFeatures": CONTEXT, "actions": ACTIONS, "excludedActions": ["Sports"]})
    assert [one["id"] for one in ranked["ranking"]][1] == "Sports" and ranked["ranking"][1]["probability"] == 0.0
    assert sum(one["probability"] for one in ranked["ranking"]) == pytest.approx(1.0)
    assert ranked["rewardActionId"] in ("News", "Entertainment")
    client.reward(ranked["eventId"], {"value": 1.0})

    deferred = client.rank({"contextFeatures": CONTEXT, "actions": ACTIONS, "eventId": "later", "deferActivation": True})
    assert deferred["eventId"] == "later"
    client.reward("later", {"value": 1.0})  # ignored: nobody has seen it
    client.activate("later")
    client.reward("later", {"value": 0.5})
    # The same event is the same decision.
    again = client.rank({"contextFeatures": CONTEXT, "actions": ACTIONS, "eventId": "later"})
    assert again["rewardActionId"] == deferred["rewardActionId"]

    slots = client.rank_multi_slot(
        {"contextFeatures": CONTEXT, "actions": ACTIONS, "slots": SLOTS, "eventId": "page", "deferActivation": True}
    )
    shown = {slot["id"]: slot["rewardActionId"] for slot in slots["slots"]}
    assert len(set(shown.values())) == 2 and shown["side"] != "News"
    client.activate_multi_slot("page")
    client.reward_multi_slot("page", {"reward": [{"slotId": "top", "value": 1.0}]})
    client.reward_multi_slot("page", {"reward": [{"slotId": "side", "value": 0.0}]})

    app = cohort.Client(service.url, app="personalizer").show_app()
    assert (app["decisions"], app["rewards"], app["reward_sum"]) == (4, 4, 2.5)

    configuration = admin.get_service_configuration()
    assert configuration["rewardWaitTime"] == "PT10M" and configuration["learningMode"] == "Online"
    configuration |= {"rewardWaitTime": "PT4H", "rewardAggregation": "average", "explorationPercentage": 0.3}
    assert admin.update_service_configuration(configuration)["rewardWaitTime"] == "PT4H"
    assert admin.get_service_configuration()["rewardAggregation"] == "average"
    policy = {"name": "mine", "arguments": "--cb_explore_adf --epsilon 0.1"}
    assert admin.update_policy(policy) == policy and admin.get_policy() == policy
    assert admin.reset_policy()["name"] != "mine"
    assert admin.get_log_properties()["dateRange"]["to"] > admin.get_log_properties()["dateRange"]["from"]
    assert admin.get_model_properties()["lastModifiedTime"]

    now = datetime.datetime.now(datetime.timezone.utc)
    hour = datetime.timedelta(hours=1)
    contract = {
        "name": "first",
        "startTime": (now - hour).isoformat(),
        "endTime": (now + hour).isoformat(),
        "policies": [],
    }
    admin.create_evaluation("one", contract)
    result = admin.get_evaluation("one", start_time=now - hour, end_time=now + hour)
    assert result["status"] == "Succeeded" and result["evaluationType"] == "Manual"
    summaries = {one["policySource"]: one["summary"] for one in result["content"]["value"]}
    online = summaries["Online"]
    assert online["expectedReward"] == pytest.approx(2.5 / 4) and "Random" in summaries
    low, high = online["confidenceInterval"]
    assert low < online["expectedReward"] < high
    point = result["content"]["value"][0]["timeseries"]["data"][0]
    assert datetime.datetime.fromisoformat(point["timeStamp"].replace("Z", "+00:00")) <= now
    with pytest.raises(HttpResponseError) as refused:
        admin.create_evaluation("two", {**contract, "policies": [{"name": "mine", "arguments": "--epsilon 0.1"}]})
    assert refused.value.error.code == "InvalidEvaluationContract"
    assert [one["id"] for one in admin.list_evaluations()] == ["one"]
    admin.delete_evaluation("one")
    assert list(admin.list_evaluations()) == []


def rewards_of(app, user):
    """How many rewards of a user the app's model has, once that does not change: it is told after the next refit."""
    deadline, found = time.monotonic() + 60, []
    while time.monotonic() < deadline and (len(found) < 8 or len(set(found[-8:])) > 1):
        time.sleep(0.1)
        found.append(app.user(user)["rewards"])
    return found[-1]


def test_a_model_goes_out_and_in(service):
    client, admin = new_clients(service.url)
    # Answers that repeat what is known of a user and an action are not learned again: others answer, too.
    for turn in range(60):
        user = "ann" if turn % 2 == 0 else f"user {turn}"
        ranked = client.rank({"contextFeatures": [{"_user": user}], "actions": ACTIONS})
        client.reward(ranked["eventId"], {"value": float(ranked["rewardActionId"] == "Sports")})
    app = cohort.Client(service.url, app="personalizer")
    known = rewards_of(app, "ann")
    assert 0 < known <= 30
    model = b"".join(admin.export_model())
    admin.reset_model()
    assert rewards_of(app, "ann") == 0
    admin.import_model(io.BytesIO(model))
    assert rewards_of(app, "ann") == known
    for bad, code in ((b"zip", "InvalidModelImportFormat"), (model[:-1] + b"?", "InvalidModelImportSignature")):
        with pytest.raises(HttpResponseError) as refused:
            admin.import_model(io.BytesIO(bad))
        assert refused.value.error.code == code
    # Nothing is lost by a restart.
    service.stop()
    restarted = type(service)(pathlib.Path(os.environ["COHORT_COMMAND"]), service.data)
    try:
        assert rewards_of(cohort.Client(restarted.url, app="personalizer"), "ann") == known
    finally:
        restarted.stop()


def test_the_old_python_client(service):
    client = OldClient(service.url, CognitiveServicesCredentials("any"))
    actions = [RankableAction(id=one["id"], features=one["features"]) for one in ACTIONS]
    request = RankRequest(
        actions=actions, context_features=CONTEXT, excluded_actions=["News"], event_id="e1", defer_activation=True
    )
    ranked = client.rank(rank_request=request)
    assert ranked.event_id == "e1" and ranked.ranking[0].probability == 0.0
    assert ranked.reward_action_id in ("Sports", "Entertainment")
    client.events.activate(event_id="e1")
    client.events.reward(event_id="e1", value=0.75)
    client.events.reward(event_id="never-ranked", value=1.0)
    with pytest.raises(HttpOperationError) as refused:
        client.events.reward(event_id="e1", value=2.0)
    assert refused.value.response.status_code == 400 and "number from -1 to 1" in refused.value.response.text
    app = cohort.Client(service.url, app="personalizer").show_app()
    assert (app["rewards"], app["reward_sum"]) == (1, 0.75)


def test_the_javascript_clients(service):
    modules = os.environ.get("COHORT_NODE_MODULES")
    assert modules, "scripts/test-python installs the packages"
    environment = {**os.environ, "NODE_PATH": modules}
    words = ["node", str(HERE / "personalizer/clients.cjs"), service.url, "any"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 2
    app = cohort.Client(service.url, app="personalizer").show_app()
    assert (app["rewards"], app["reward_sum"]) == (3, 1.75)


def test_rewards_are_gathered_and_defaults_given(service):
    client, admin = new_clients(service.url)
    with_service(rewardWaitTime="PT1S", rewardAggregation="sum", defaultReward=-0.5)(admin)
    one = client.rank({"actions": ACTIONS})["eventId"]
    client.rank({"actions": ACTIONS})
    client.rank({"actions": ACTIONS, "deferActivation": True})
    for value in (1.0, 0.5, -0.25):
        client.reward(one, {"value": value})
    app = cohort.Client(service.url, app="personalizer")
    assert app.show_app()["rewards"] == 0
    deadline = time.monotonic() + 20
    while (said := app.show_app())["waiting"] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (said["rewards"], said["reward_sum"], said["defaults"], said["unrewarded"]) == (1, 1.25, 1, 1)
    client.reward(one, {"value": 1.0})  # too late: no error, no effect
    assert app.show_app()["reward_sum"] == 1.25


def test_apprentice_and_logging_modes(service):
    client, admin = new_clients(service.url)
    with_service(learningMode="Apprentice")(admin)
    # Sports on phones, News elsewhere; a tenth of the answers is good, whatever is shown.
    for turn in range(200):
        phone = turn * 7 % 3 == 0
        context = [{"device": "phone" if phone else "desktop"}, {"_user": f"user {turn % 5}"}]
        first = "Sports" if phone else "News"
        actions = sorted(ACTIONS, key=lambda action: action["id"] != first)
        ranked = client.rank({"contextFeatures": context, "actions": actions, "eventId": f"turn {turn}"})
        assert ranked["rewardActionId"] == first
        client.reward(ranked["eventId"], {"value": float(turn % 10 == 0)})
    metrics = admin.get_service_configuration()["latestApprenticeModeMetrics"]
    assert metrics["numberOfEvents"] == 200 and 160 < metrics["numberOfImitatedEvents"] < 200
    assert metrics["sumOfRewards"] == 20.0 and 10.0 < metrics["sumOfImitatedRewards"] <= 20.0
    client.rank({"contextFeatures": CONTEXT, "actions": ACTIONS})
    app = cohort.Client(service.url, app="personalizer")
    apprentice = app.show_app()["apprentice"]
    assert abs(apprentice["agreement"] - metrics["numberOfImitatedEvents"] / 200) < 0.01
    with pytest.raises(HttpResponseError) as refused:
        with_service(learningMode="Online", defaultReward=0.5)(admin)
    assert refused.value.error.code == "InvalidLearningModeServiceConfiguration"
    with_service(learningMode="LoggingOnly")(admin)
    before = app.user("ann")
    ranked = client.rank({"contextFeatures": CONTEXT, "actions": ACTIONS})
    client.reward(ranked["eventId"], {"value": -1.0})
    assert ranked["rewardActionId"] == "News" and app.user("ann")["rewards"] == before["rewards"]
    with_service(learningMode="Online")(admin)


def test_bad_input_is_told_in_the_dialect(service):
    client, admin = new_clients(service.url)

    def post(path, body, headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"Content-Type": "application/json", **dict(headers)}
        request = urllib.request.Request(f"{service.url}/personalizer/v1.0{path}", data, named, method="POST")
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            told = json.loads(refused.read())["error"]
            assert told["message"] and refused.headers["x-ms-error-code"] == told["code"]
            assert refused.headers["apim-request-id"]
            return refused.code, told["code"]

    deep = b'{"actions":[{"id":"a","features":' + b'[{"a":' * 400 + b"1" + b"}]" * 400 + b"}]}"
    rank = {"actions": ACTIONS}
    cases = [
        ("/rank", {}, 400, "InvalidRankRequest"),
        ("/rank", {"actions": []}, 400, "InvalidRankRequest"),
        ("/rank", {"actions": [{"id": "", "features": []}]}, 400, "InvalidRankRequest"),
        ("/rank", {"actions": [ACTIONS[0], ACTIONS[0]]}, 400, "InvalidRankRequest"),
        ("/rank", {**rank, "excludedActions": [one["id"] for one in ACTIONS]}, 400, "InvalidRankRequest"),
        ("/rank", {**rank, "eventId": "x" * 257}, 400, "InvalidRankRequest"),
        ("/rank", {**rank, "contextFeatures": [{"_user": {"no": 1}}]}, 400, "InvalidRankRequest"),
        ("/rank", deep, 400, "InvalidRankRequest"),
        ("/rank", b'{"actions": NaN}', 400, "InvalidRankRequest"),
        ("/rank", b"\xff\xfe", 400, "InvalidRankRequest"),
        ("/events/e/reward", {"value": "NaN"}, 400, "InvalidRewardRequest"),
        ("/events/e/reward", {"reward": []}, 400, "InvalidRewardRequest"),
        ("/events/" + "x" * 257 + "/reward", {"value": 1}, 400, "InvalidRewardRequest"),
        ("/events/" + "x" * 257 + "/activate", b"", 400, "InvalidEventIdToActivate"),
        ("/multislot/rank", rank, 400, "InvalidRankRequest"),
        ("/multislot/rank", {**rank, "slots": SLOTS * 2}, 400, "InvalidRankRequest"),
        ("/multislot/rank", {**rank, "slots": [{"id": "s", "baselineAction": "?"}]}, 400, "InvalidRankRequest"),
        ("/multislot/events/e/reward", {"value": 1}, 400, "InvalidRewardRequest"),
        ("/multislot/events/e/reward", {"reward": []}, 400, "InvalidRewardRequest"),
        ("/nothing", {}, 404, "ResourceNotFound"),
    ]
    for path, body, status, code in cases:
        assert post(path, body) == (status, code), (path, body)
    # Calls out of order: unknown events are no error, as clients expect it.
    assert post("/events/unknown/reward", {"value": 1})[0] == 204
    assert post("/events/unknown/activate", b"")[0] == 204
    assert post("/multislot/events/unknown/activate", b"")[0] == 204
    assert post("/multislot/events/unknown/reward", {"reward": [{"slotId": "s", "value": 1}]})[0] == 204
    assert post("/rank", rank)[0] == 201
    for config, code in (
        ({"rewardWaitTime": "soon"}, "InvalidRewardWaitTime"),
        ({"defaultReward": 2.0}, "InvalidServiceConfiguration"),
        ({"rewardAggregation": "mode"}, "InvalidServiceConfiguration"),
        ({"explorationPercentage": -0.1}, "InvalidServiceConfiguration"),
        ({"learningMode": "Offline"}, "InvalidServiceConfiguration"),
        ({"logRetentionDays": -9}, "InvalidLogRetentionDays"),
    ):
        with pytest.raises(HttpResponseError) as refused:
            with_service(**config)(admin)
        assert refused.value.error.code == code, config


def test_loops_are_apps_and_users_are_told_apart(service):
    shop = cohort.Client(service.url, app="shop")
    shop.create_app("shop", dim=16)
    shop.create_app("blog", dim=16)
    client, admin = new_clients(f"{service.url}/apps/shop")
    for user in ("ann", "bob", "ann"):
        client.rank({"contextFeatures": [{"_cohort": {"user": user}}], "actions": ACTIONS})
    client.rank({"actions": ACTIONS}, headers={"x-cohort-user": "cem"})
    client.rank({"actions": ACTIONS})
    assert (shop.show_app()["users"], shop.show_app()["decisions"]) == (4, 5)
    assert shop.show_app("blog")["decisions"] == 0
    assert admin.get_service_configuration()["defaultReward"] == 0.0
    with pytest.raises(HttpResponseError) as refused:
        new_clients(f"{service.url}/apps/nobody")[0].rank({"actions": ACTIONS})
    assert refused.value.status_code == 404 and refused.value.error.code == "ResourceNotFound"
