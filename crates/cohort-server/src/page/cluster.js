// The cluster: nodes, partitions, who owns which, how far each is behind, how large it is.

import { h, number } from "./elements.js";
import { get } from "./service.js";

const tile = (name, big, ...small) =>
  h("div.tile", {}, h("dt", {}, name), h("dd.big", {}, big), h("dd.small", {}, ...small));

const table = (heads, body) =>
  h("div.scroll", {}, h("table", {}, h("thead", {}, h("tr", {}, ...heads.map(([name, kind]) => h("th", { class: kind }, name)))), body));

const card = (title, note, ...children) =>
  h("section.card", {}, h("header", {}, h("h2", {}, title), h("p.note", {}, note)), ...children);

const size = bytes => bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

const nodeState = node => {
  if (!node.lives) return h("span.tag", {}, `silent for ${Math.round(node.silent_ms / 1000)} s`);
  return node.drains ? h("span.tag", {}, "drains") : "lives";
};

// Live: asked every second.
export const cluster = async () => {
  const tiles = h("dl.card.tiles");
  const nodes = h("tbody");
  const partitions = h("tbody");
  const lost = h("p.said.wrong", { role: "status", hidden: true });
  const load = async () => {
    const now = await get("/v1/cluster");
    lost.hidden = true;
    const living = now.nodes.filter(node => node.lives).length;
    const owned = now.owners.filter(one => one.owner !== null).length;
    const sum = key => now.owners.reduce((all, one) => all + (one[key] ?? 0), 0);
    tiles.replaceChildren(
      tile("Nodes that live", String(living), `of ${now.nodes.length}; you look through ${now.node}`),
      tile("Partitions served", `${owned}/${now.owners.length}`, owned === now.owners.length ? "all have an owner" : "requests for the others wait"),
      tile("Users", sum("users").toLocaleString("en"), "as of a moment ago"),
      tile("Bytes", size(sum("bytes")), "of streams, on each of ", number("replicas", now.replicas), now.replicas === 1 ? " server" : " servers"),
      tile("Control event", number("control", now.control), "what every partition follows"));
    nodes.replaceChildren(...now.nodes.map((node, at) => h("tr", { "data-node": node.node },
      h("td", {}, node.node), h("td.narrow-hide", {}, node.address), h("td.narrow-hide", {}, node.version),
      h("td.right", {}, number(`nodes.${at}.owns`, node.owns)), h("td", {}, nodeState(node)))));
    partitions.replaceChildren(...now.owners.map((one, at) => h("tr", { "data-partition": one.partition },
      h("td", {}, one.partition), h("td", {}, one.owner ?? h("span.tag", {}, "nobody")),
      h("td.right.narrow-hide", {}, number(`owners.${at}.epoch`, one.epoch)),
      h("td.right", {}, number(`owners.${at}.events`, one.events)),
      h("td.right", {}, number(`owners.${at}.lag`, one.lag)),
      h("td.right", {}, number(`owners.${at}.users`, one.users)),
      h("td.right.narrow-hide", {}, number(`owners.${at}.bytes`, one.bytes)))));
  };
  await load();
  const timer = setInterval(() => load().catch(error => {
    lost.hidden = false;
    lost.textContent = `This node does not answer: ${error.message}`;
  }), 1000);
  return {
    path: [["cluster"]],
    element: [h("div.title", {}, h("h1", {}, "Cluster"), h("p", {}, "Users of all apps are spread over partitions; each has one owner at a time.")),
      lost, tiles,
      card("Nodes", "Who is silent for three seconds is dead, and others take over.",
        table([["Node"], ["Address", "narrow-hide"], ["Version", "narrow-hide"], ["Owns", "right"], ["State"]], nodes)),
      card("Partitions", "Lag: events of the control stream that a partition has not taken over yet.",
        table([["Partition"], ["Owner"], ["Epoch", "right narrow-hide"], ["Events", "right"], ["Lag", "right"], ["Users", "right"],
          ["Bytes", "right narrow-hide"]], partitions))],
    stop: () => clearInterval(timer),
  };
};
