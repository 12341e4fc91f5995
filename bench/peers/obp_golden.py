"""What the Open Bandit Pipeline (PyPI: obp) says of some policies on the small Open Bandit sample.

Its figures are the golden values that `cohort evaluate` is compared with, to 1e-6, by the ordinary
tests (crates/cohort-lab/tests/open_bandit.rs). To make them again:

    python3 -m venv /tmp/obp && /tmp/obp/bin/pip install numpy pandas scikit-learn torch pyyaml tqdm seaborn
    /tmp/obp/bin/pip install --no-deps obp==0.4.1
    /tmp/obp/bin/python bench/peers/obp_golden.py ../shared/data/open-bandit-sample \
        > crates/cohort-lab/tests/golden/open_bandit.json

The estimators and the regression model are obp's own. Only its loading of files is not used: that of
0.4.1 calls pandas in a way that pandas 3 no longer has. Its preprocessing is done here as it does it.
"""

import importlib.metadata
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from obp.ope import (
    DoublyRobust,
    InverseProbabilityWeighting,
    RegressionModel,
    ReplayMethod,
    SelfNormalizedInverseProbabilityWeighting,
)
from sklearn.linear_model import Ridge

FOLDS = 3


def load(folder, campaign):
    data = pd.read_csv(folder / f"{campaign}.csv.gz", index_col=0)
    data = data.sort_values("timestamp", kind="stable")
    users = data.loc[:, data.columns.str.contains("user_feature")]
    return {
        "n_actions": len(pd.read_csv(folder / "item_context.csv", index_col=0)),
        "action": data["item_id"].values,
        "position": data["position"].values - 1,
        "reward": data["click"].values,
        "pscore": data["propensity_score"].values,
        "context": pd.get_dummies(users, drop_first=True).values.astype(float),
    }


def cross_fitted_rewards(log):
    """obp's regression model, each third of the rows predicted by a model of the other two."""
    rows = np.arange(len(log["action"]))
    positions = int(log["position"].max()) + 1
    rewards = np.zeros((len(rows), log["n_actions"], positions))
    for fold in range(FOLDS):
        train, test = rows % FOLDS != fold, rows % FOLDS == fold
        model = RegressionModel(
            n_actions=log["n_actions"],
            len_list=positions,
            base_model=Ridge(alpha=1.0, solver="cholesky"),
        )
        keys = ["context", "action", "reward", "pscore", "position"]
        model.fit(**{key: log[key][train] for key in keys})
        rewards[test] = model.predict(log["context"][test])
    return rewards


def policies(log):
    """Probabilities by name, (rows, items): the tests make the same from the same formulas."""
    rows, items = np.arange(len(log["action"]))[:, None], np.arange(log["n_actions"])[None, :]
    uneven = 1.0 + (7 * items + 3 * rows) % 11
    return {
        "random": np.full((len(rows), items.size), 1.0 / items.size),
        "item=3": np.repeat((items == 3).astype(float), len(rows), axis=0),
        "uneven": uneven / uneven.sum(axis=1, keepdims=True),
        "turning": (items == (13 * rows) % items.size).astype(float),
    }


def estimates(log, rewards, probabilities):
    positions = int(log["position"].max()) + 1
    action_dist = np.repeat(probabilities[:, :, None], positions, axis=2)
    given = {key: log[key] for key in ["reward", "action", "position"]}
    weighed = dict(given, pscore=log["pscore"], action_dist=action_dist)
    found = {
        "ips": InverseProbabilityWeighting().estimate_policy_value(**weighed),
        "snips": SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**weighed),
        "dr": DoublyRobust().estimate_policy_value(
            **weighed, estimated_rewards_by_reg_model=rewards
        ),
    }
    if np.isin(probabilities, [0.0, 1.0]).all():
        found["replay"] = ReplayMethod().estimate_policy_value(**given, action_dist=action_dist)
    return {name: float(value) for name, value in found.items()}


def main(root):
    golden = []
    for behaviour in ["random", "bts"]:
        for campaign in ["all", "men", "women"]:
            log = load(root / behaviour / campaign, campaign)
            rewards = cross_fitted_rewards(log)
            for name, probabilities in policies(log).items():
                golden.append(
                    {"log": f"{behaviour}/{campaign}", "policy": name}
                    | estimates(log, rewards, probabilities)
                )
            print(f"{behaviour}/{campaign}", file=sys.stderr)
    packages = ["obp", "numpy", "pandas", "scikit-learn"]
    made_by = {name: importlib.metadata.version(name) for name in packages}
    print(json.dumps({"made_by": made_by, "estimates": golden}, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
