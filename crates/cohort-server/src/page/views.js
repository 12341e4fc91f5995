// What can be looked at: all apps, one app, one user, one decision. A view is an element and, where it
// is live, a way to end it.

import { ago, dot, h, link, number } from "./elements.js";
import { appFeatures, featuresCard, partsCard } from "./features.js";
import { curve, estimate, figure, reasons } from "./figures.js";
import { cohortMap } from "./map.js";
import { appPath, download, follow, get, hasKey, post } from "./service.js";

// Decisions in the list of an app.
const LISTED = 9;

const featureNames = (names, dim) => Array.from({ length: dim }, (_, k) => names[k] ?? `feature ${k}`);

const card = (title, note, ...children) =>
  h("section.card", {}, h("header", {}, h("h2", {}, title), note ? h("p.note", {}, note) : null), ...children);

const tile = (name, big, ...small) =>
  h("div.tile", {}, h("dt", {}, name), h("dd.big", {}, big), h("dd.small", {}, ...small));

const decisionsTable = () => {
  const body = h("tbody");
  const none = h("p.empty", {}, "None yet.");
  const table = h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Decision"), h("th", {}, "User"), h("th.narrow-hide", {}, "Item"),
      h("th.right.narrow-hide", {}, "Probability"), h("th", {}, "Outcome"), h("th.narrow-hide", {}, "When"))), body);
  const made = h("div.scroll", {}, table, none);
  // What somebody points at or has reached by keyboard does not move away.
  made.show = (app, list, at_ms) => {
    table.hidden = !list.length;
    none.hidden = list.length > 0;
    if (body.matches(":hover") || body.contains(document.activeElement)) return;
    body.replaceChildren(...list.map((one, at) => h("tr", { "data-decision": one.decision_id },
      h("td", {}, h("a", { href: link("app", app, "decision", one.decision_id) }, one.decision_id.slice(0, 8)),
        one.control ? [" ", h("span.tag.control", {}, "control")] : null),
      h("td", {}, h("a", { href: link("app", app, "user", one.user) }, one.user)),
      h("td.narrow-hide", {}, one.item),
      h("td.right.narrow-hide", {}, number(`recent.${at}.probability`, one.probability, { digits: 3 })),
      h("td", {}, one.reward === null ? h("span.tag", {}, one.status.replace("_", " ")) : number(`recent.${at}.reward`, one.reward, { digits: 2 })),
      h("td.narrow-hide", {}, ago(one.decided_ms, at_ms)))));
  };
  return made;
};

// All apps, and a new one.
export const apps = async () => {
  const list = h("tbody");
  const table = h("div.scroll", {}, h("table", {}, h("thead", {}, h("tr", {}, ...[["App"], ["Policy", "narrow-hide"], ["Users", "right"],
    ["Decisions", "right"], ["Rewards", "right"], ["Average reward", "right narrow-hide"]].map(([name, kind]) => h("th", { class: kind }, name)))), list));
  const none = h("p.empty", {}, "No apps yet. Create one below, or start the service with --demo.");
  const load = async () => {
    const { apps } = await get("/v1/apps");
    none.hidden = apps.length > 0;
    table.hidden = !apps.length;
    list.replaceChildren(...apps.map((app, at) => h("tr", { "data-app": app.name },
      h("td", {}, h("a", { href: link("app", app.name) }, app.name)),
      h("td.narrow-hide", {}, app.policy),
      h("td.right", {}, number(`apps.${at}.users`, app.users)),
      h("td.right", {}, number(`apps.${at}.decisions`, app.decisions)),
      h("td.right", {}, number(`apps.${at}.rewards`, app.rewards)),
      h("td.right.narrow-hide", {}, number(`apps.${at}.average_reward`, app.average_reward, { digits: 3 })))));
  };
  const said = h("p.said", { role: "status" });
  const field = (name, label, attributes) => h("label", {}, label, h("input", { name, required: true, autocomplete: "off", ...attributes }));
  const form = h("form", {
    onsubmit: async event => {
      event.preventDefault();
      const values = new FormData(form);
      said.className = "said";
      try {
        const made = await post("/v1/apps", { name: values.get("name"), dim: Number(values.get("dim")), control: Number(values.get("control")) / 100 });
        said.replaceChildren(`Created. Its key, shown this once: `, h("code", {}, made.key.key));
        form.reset();
        await load();
      } catch (error) {
        said.className = "said wrong";
        said.textContent = error.message;
      }
    },
  },
  field("name", "Name", { pattern: "[a-z0-9_\\-][a-z0-9_.\\-]*", maxlength: 64, placeholder: "shop" }),
  field("dim", "Features of an item", { type: "number", min: 1, max: 4096, value: 8 }),
  field("control", "Control group, %", { type: "number", min: 0, max: 100, step: "any", value: 10 }),
  h("button.act", { type: "submit" }, "Create app"), said);
  await load();
  const timer = setInterval(() => load().catch(() => {}), 2000);
  return {
    path: [],
    element: [h("div.title", {}, h("h1", {}, "Apps"), h("p", {}, "Each app has users, items and a model of its own.")),
      h("section.card", {}, table, none), card("New app", "Everything else has a default; the API can change it.", form)],
    stop: () => clearInterval(timer),
  };
};

const liftTile = ({ curve: { lift, control_share } }) => {
  if (!lift) {
    const why = control_share > 0 ? "too few rewards to say" : "no control group is set";
    return tile("Against control", "–", why);
  }
  const known = lift.verdict !== "unknown";
  return tile("Against control",
    known ? h(`span.${lift.verdict}`, {}, number("curve.lift.difference", lift.difference, { digits: 3, sign: true })) : "no lift shown",
    number("curve.lift.low", lift.low, { digits: 3, sign: true }), " to ", number("curve.lift.high", lift.high, { digits: 3, sign: true }),
    known ? "" : ": zero is not excluded");
};

const tiles = now => [
  tile("Decisions", number("decisions", now.decisions), number("decisions_per_second", now.decisions_per_second, { digits: 1 }), " per second"),
  tile("Rewards", number("rewards", now.rewards), number("rewards_per_second", now.rewards_per_second, { digits: 1 }), " per second"),
  tile("Users", number("users", now.users), number("waiting", now.waiting), " decisions wait for a reward"),
  tile("Average reward", number("curve.policy.mean", now.curve.policy.mean, { digits: 3 }),
    "control ", number("curve.control.mean", now.curve.control.mean, { digits: 3 })),
  liftTile(now),
];

const cohortList = now => {
  const found = now.population?.cohorts ?? [];
  if (!found.length) return [h("p.empty", {}, now.population ? "No cohorts: so far users differ, but not in groups." : "Nothing is known of users in common yet.")];
  const names = featureNames(now.feature_names, now.dim);
  const items = found.map((cohort, at) => {
    const bar = h(`i.c${cohort.colour % 7}`);
    bar.style.width = `${cohort.share * 100}%`;
    return h("li", {},
      h("div.head", {}, dot(cohort.colour), h("b", {}, `Cohort ${cohort.label}`),
        h("span.note", {}, "about ", number(`population.cohorts.${at}.users`, cohort.users), " users"),
        h("span.share", {}, number(`population.cohorts.${at}.share`, cohort.share, { digits: 0, scale: 100, unit: " %" }))),
      h("div.bar", {}, bar),
      h("div.distinct", {}, ...cohort.distinct.map((one, k) => h("span", {}, `${names[one.feature]} `,
        number(`population.cohorts.${at}.distinct.${k}.difference`, one.difference, { digits: 2, sign: true })))));
  });
  const rest = now.population.at_large;
  const share = number("population.at_large", rest, { digits: 0, scale: 100, unit: " %" });
  return [h("ul.cohorts", {}, ...items), h("p.note.rest", {}, h("br"), share, " of users are of no cohort")];
};

// One app, live.
export const app = async (name, state) => {
  const title = h("p");
  const strip = h("dl.card.tiles");
  const map = cohortMap(user => { location.hash = link("app", name, "user", user); });
  const mapNote = h("p.note");
  const list = h("div");
  const drawn = figure("Average reward of the policy and of the control group, after every reward", curve);
  const curveNote = h("p.note");
  const recent = decisionsTable();
  const find = h("form", {
    role: "search",
    onsubmit: event => {
      event.preventDefault();
      const user = new FormData(find).get("user").trim();
      if (user) location.hash = link("app", name, "user", user);
    },
  }, h("label", {}, "Find a user", h("input", { name: "user", autocomplete: "off", placeholder: "id" })), h("button.act", { type: "submit" }, "Open"));
  const root = h("div", { "data-tick": 0, hidden: true });
  const takesJson = (await get(appPath(name))).features === "json";
  const features = takesJson ? appFeatures(name) : null;
  const show = now => {
    state("live", "live");
    title.textContent = `policy ${now.policy}, ${now.dim} features`;
    strip.replaceChildren(...tiles(now));
    map.show(now.map.points, now.population?.cohorts ?? []);
    const all = now.map.users <= now.map.sample;
    mapNote.replaceChildren(number("map.points.length", now.map.points.length), all ? " users of whom something is known" : " users, a sample of ",
      all ? "" : number("map.users", now.map.users));
    list.replaceChildren(...cohortList(now));
    features?.cohorts(now.population?.cohorts ?? []);
    drawn.show(now.curve.points);
    curveNote.replaceChildren(number("curve.policy.count", now.curve.policy.count), " rewards of the policy, ",
      number("curve.control.count", now.curve.control.count), " of the control group (",
      number("curve.control_share", now.curve.control_share, { scale: 100, unit: " %" }), ")");
    recent.show(name, now.recent.slice(0, LISTED), now.at_ms);
    root.dataset.tick = now.tick;
  };
  const first = await get(appPath(name, "insight"));
  const ended = new AbortController();
  show(first);
  follow(appPath(name, "live"), show, error => state("lost", error.message), ended.signal);
  return {
    path: [[name, link("app", name)]],
    element: [
      h("div.title", {}, h("h1", {}, name), title), root, strip,
      h("div.columns", {},
        h("section.card", {}, h("header", {}, h("h2", {}, "Users by taste"), mapNote), map),
        card("Cohorts", "share, and how they differ from the average user", list)),
      h("div.columns.even", {},
        h("section.card", {}, h("header", {}, h("h2", {}, "Does it help?"), curveNote),
          h("div.legend", {}, h("span", {}, h("i.key.policy"), "policy"), h("span", {}, h("i.key.control"), "control group"),
            h("span", {}, "average reward so far, by number of rewards; bands hold at all times with 95 %")), drawn),
        h("section.card", {}, h("header", {}, h("h2", {}, "Newest decisions"), h("p.note", {}, "a sample")), recent)),
      ...(features ? [features] : []),
      h("section.card", {}, h("header", {}, h("h2", {}, "Look closer"),
        h("p.note", {}, "the decision log: ", file(name, "log.parquet", "Parquet"), ", ", file(name, "log.csv", "CSV"))), find),
    ],
    redraw: () => {
      map.redraw();
      drawn.redraw();
    },
    stop: () => {
      ended.abort();
      features?.stop();
    },
  };
};

// A link to a file of an app. Where a key is needed the browser would not send it by itself.
const file = (name, path, text) => {
  const said = h("span");
  const fetched = event => {
    if (!hasKey()) return;
    event.preventDefault();
    said.textContent = " …";
    download(appPath(name, path), `${name}.${path.split(".").pop()}`)
      .then(() => { said.textContent = ""; }, error => { said.textContent = ` ${error.message}`; });
  };
  return [h("a", { href: appPath(name, path), onclick: fetched }, text), said];
};

const memberships = (list, api) => list.map((one, at) => {
  const bar = h(`i${one.colour === null ? "" : `.c${one.colour % 7}`}`);
  bar.style.width = `${one.share * 100}%`;
  return h("li", {},
    h("div.head", {}, dot(one.colour), h("b", {}, one.label ? `Cohort ${one.label}` : "No cohort"),
      h("span.share", {}, number(`${api}.${at}.share`, one.share, { digits: 1, scale: 100, unit: " %" }))),
    h("div.bar", {}, bar));
});

// One user.
export const user = async (name, id) => {
  const found = await get(appPath(name, "users", id));
  const likeliest = found.memberships[0]?.colour ?? null;
  const takesJson = (await get(appPath(name))).features === "json";
  const features = takesJson ? featuresCard("Features", "what one unit of each adds to the reward that is expected of this user") : null;
  features?.show(appPath(name, "users", id, "features")).catch(() => {});
  const drawn = figure(`What ${id} likes, feature by feature`, estimate);
  const recent = decisionsTable();
  recent.show(name, found.recent, Date.now());
  queueMicrotask(() => found.estimate.length && drawn.show({
    values: found.estimate, deviations: found.deviations, average: found.average_user,
    names: featureNames(found.feature_names, found.estimate.length), index: likeliest,
  }));
  return {
    path: [[name, link("app", name)], [id]],
    element: [
      h("div.title", {}, h("h1", {}, id), h("p", {}, number("rewards", found.rewards), " rewards are behind what is known")),
      h("div.columns", {},
        h("section.card", {}, h("header", {}, h("h2", {}, "What this user likes"), h("p.note", {}, "a weight for each feature, ± 2 standard deviations")),
          found.average_user.length ? h("div.legend", {}, h("span", {}, h(likeliest === null ? "i.key.control" : `i.key.c${likeliest % 7}`), "this user"), h("span", {}, "❙ the average user")) : null,
          found.estimate.length ? drawn : h("p.empty", {}, "Nothing is known yet.")),
        card("Where it belongs", "probabilities", found.memberships.length
          ? h("ul.cohorts", {}, ...memberships(found.memberships, "memberships")) : h("p.empty", {}, "No cohorts are known."))),
      features,
      card("Its newest decisions", "of those whose reasons are kept", found.recent.length ? recent : h("p.empty", {}, "None among the newest.")),
    ].filter(Boolean),
  };
};

// One decision, and why.
export const decision = async (name, id) => {
  const found = await get(appPath(name, "decisions", id));
  const why = found.reasons;
  const parts = why && why.candidates[0]?.own !== null;
  const drawn = figure("What each candidate's score is made of", reasons);
  queueMicrotask(() => why && drawn.show(why.candidates));
  const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, ...value));
  // What the item itself adds is known of apps that take JSON.
  const hasItems = why?.candidates.some(one => one.item_effect !== undefined);
  const columns = [["Population", "population"], ["Cohort", "cohort"], ["Own rewards", "own"], ...(hasItems ? [["Item itself", "item_effect"]] : []),
    ["Expected", "expected"], ["Bonus", "bonus"], ["Score", "score"]];
  const keys = parts ? [["population", "the population at large"], ["cohort", "its cohort"], ["own", "its own rewards"], ...(hasItems ? [["item", "the item itself"]] : []), ["bonus", "bonus for being unsure"]]
    : [["own", "expected reward"], ["bonus", "bonus for being unsure"]];
  return {
    path: [[name, link("app", name)], [id.length > 12 ? `${id.slice(0, 8)}…` : id]],
    element: [
      h("div.title", {}, h("h1", {}, found.ranking[0]), h("p", {}, "was chosen for ", h("a", { href: link("app", name, "user", found.user) }, found.user))),
      h("section.card", {}, h("dl.facts", {},
        fact("Decision", h("code", {}, id)),
        fact("When", new Date(found.decided_ms).toLocaleString()),
        fact("Probability", number("probability", found.probability, { digits: 3 })),
        fact("Group", found.control ? h("span.tag.control", {}, "control: chosen at random") : "policy"),
        fact("Outcome", found.reward === null ? found.status.replace("_", " ") : ["reward ", number("reward", found.reward, { digits: 3 })]),
        fact("Candidates", number("ranking.length", found.ranking.length)))),
      why ? h("div.columns", {},
        h("section.card", {}, h("header", {}, h("h2", {}, why.control ? "What the policy thought" : "Why this one"), h("p.note", {}, "score = expected reward + bonus, best to worst")),
          h("div.legend", {}, ...keys.map(([kind, text]) => h("span", {}, h(`i.key.${kind}`), text))), drawn,
          why.more ? h("p.note", {}, number("reasons.more", why.more), " worse candidates are not shown") : null),
        card("Where the user was thought to belong", "", why.memberships.length
          ? h("ul.cohorts", {}, ...memberships(why.memberships, "reasons.memberships")) : h("p.empty", {}, "The user was new: nothing of its own was known.")))
        : h("section.card", {}, h("p.empty", {}, "Its reasons are not kept any more: only those of a sample of the newest decisions are.")),
      why ? partsCard(why.candidates) : null,
      why ? card("In numbers", "", h("div.scroll", {}, h("table", {},
        h("thead", {}, h("tr", {}, ...["Candidate", ...columns.map(([text]) => text)].map((text, k) => h(k ? "th.right" : "th", {}, text)))),
        h("tbody", {}, ...why.candidates.map((one, at) => h("tr", {}, h("td", {}, one.item), ...columns.map(([, part]) =>
          h("td.right", {}, one[part] === undefined ? "–" : number(`reasons.candidates.${at}.${part}`, one[part], { digits: 3 }))))))))) : null,
    ].filter(Boolean),
  };
};
