"""Made-up users for scripts/cluster-demo: five kinds of taste, asking any node that answers."""

import json
import random
import sys
import time
import urllib.error
import urllib.request

nodes = sys.argv[1:]
DIM, KINDS, USERS = 6, 5, 400
world = random.Random(7)
tastes = [[world.gauss(0, 1) for _ in range(DIM)] for _ in range(KINDS)]
items = [[world.gauss(0, 0.5) for _ in range(DIM)] for _ in range(30)]


def ask(path, body):
    """Asks node after node until one answers; returns what it said."""
    while True:
        for node in random.sample(nodes, len(nodes)):
            request = urllib.request.Request(
                node + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
            )
            try:
                with urllib.request.urlopen(request, timeout=12) as said:
                    return json.load(said)
            except urllib.error.HTTPError as why:
                if why.code not in (503, 500):
                    return json.loads(why.read() or b"{}")
            except OSError:
                pass
        time.sleep(0.1)


ask("/v1/apps", {"name": "demo", "dim": DIM, "control": 0.1})
done, began = 0, time.time()
while True:
    user = random.randrange(USERS)
    offered = random.sample(range(len(items)), 8)
    said = ask(
        "/v1/apps/demo/decide",
        {"user": f"reader-{user}", "items": [{"id": f"article-{at}", "features": items[at]} for at in offered]},
    )
    if "item" not in said:
        print(said, flush=True)
        time.sleep(1)
        continue
    features = items[int(said["item"].split("-")[1])]
    liked = sum(a * b for a, b in zip(features, tastes[user % KINDS])) + random.gauss(0, 0.3)
    ask("/v1/apps/demo/reward", {"decision_id": said["decision_id"], "reward": liked})
    done += 1
    if done % 200 == 0:
        print(f"{done} decisions, {done / (time.time() - began):.0f} a second", flush=True)
