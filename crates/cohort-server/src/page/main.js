// Which view is shown, and in which theme.

import { h } from "./elements.js";
import { Refused, get, setKey } from "./service.js";
import { cluster } from "./cluster.js";
import * as views from "./views.js";

const main = document.getElementById("main");
const stateLine = document.getElementById("state");
let shown = null;

const state = (kind, text) => {
  if (stateLine.textContent !== text) stateLine.textContent = text;
  stateLine.className = `state ${kind}`;
};

const open = words => {
  const [what, app, kind, id] = words;
  if (what === "cluster") return cluster();
  if (what !== "app" || !app) return views.apps();
  if (kind === "user" && id) return views.user(app, id);
  if (kind === "decision" && id) return views.decision(app, id);
  return views.app(app, state);
};

// A service with keys wants one; it is remembered as long as this tab is open.
const askForKey = error => {
  const form = h("form", {
    onsubmit: event => {
      event.preventDefault();
      setKey(new FormData(form).get("key").trim());
      route();
    },
  }, h("label", {}, "Key", h("input", { name: "key", type: "password", autocomplete: "off", required: true })), h("button.act", { type: "submit" }, "Go on"),
  h("p.said.wrong", {}, error.message));
  return { path: [], element: [h("div.title", {}, h("h1", {}, "This service needs a key")), h("section.card", {}, form)] };
};

const problem = error => ({
  path: [],
  element: [h("div.title", {}, h("h1", {}, "Not found")), h("section.card", {}, h("p.empty", {}, error.message), h("p.empty", {}, h("a", { href: "#/" }, "All apps")))],
});

let turn = 0;
const route = async () => {
  const mine = ++turn;
  const words = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  if (words[0] === "main") return main.focus();
  shown?.stop?.();
  state("", "");
  let view;
  try {
    view = await open(words);
  } catch (error) {
    if (!(error instanceof Refused)) console.error(error);
    view = error.status === 401 || error.status === 403 ? askForKey(error) : problem(error);
  }
  if (mine !== turn) return view.stop?.();
  shown = view;
  document.getElementById("path").replaceChildren(...view.path.map(([text, to]) => (to ? h("a", { href: to }, text) : h("span", {}, text))));
  document.title = ["cohort", ...view.path.map(([text]) => text)].join(" / ");
  main.replaceChildren(...view.element);
  scrollTo(0, 0);
};

const root = document.documentElement;
const saved = localStorage.getItem("cohort-theme");
if (saved) root.dataset.theme = saved;
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("cohort-theme", root.dataset.theme);
  // Drawings take their colours from the theme.
  if (shown?.redraw) shown.redraw();
  else route();
});

addEventListener("hashchange", route);
get("/v1/status").then(status => {
  document.getElementById("demo").hidden = !status.demo;
  document.getElementById("cluster").hidden = !status.cluster;
}).catch(() => {});
route();
