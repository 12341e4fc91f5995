// Features of an app that takes JSON: which were seen, which share a coordinate, which matter.

import { h, number } from "./elements.js";
import { appPath, get } from "./service.js";

// Features in a table: the weightiest.
const LISTED = 30;

const columns = [["Feature"], ["Weight", "right"], ["Kind", "narrow-hide"], ["Mean", "right narrow-hide"], ["Deviation", "right narrow-hide"],
  ["Coordinate", "right narrow-hide"], ["Shares it with", "narrow-hide"]];

const row = (one, at) => h("tr", { "data-feature": one.name },
  h("td", {}, one.name),
  h("td.right", {}, number(`features.${at}.weight`, one.weight, { digits: 3, sign: true })),
  h("td.narrow-hide", {}, one.kind),
  h("td.right.narrow-hide", {}, one.mean === null ? "" : number(`features.${at}.mean`, one.mean, { digits: 2 })),
  h("td.right.narrow-hide", {}, one.deviation === null ? "" : number(`features.${at}.deviation`, one.deviation, { digits: 2 })),
  h("td.right.narrow-hide", {}, one.coordinate === null ? "" : number(`features.${at}.coordinate`, one.coordinate)),
  h("td.narrow-hide.wraps", {}, one.collides_with.length ? one.collides_with.join(", ") : h("span.note", {}, "nothing")));

// A card with the features at a path, such as those of an app or of a user. `show` fills it, from another path if one is named.
export const featuresCard = (title, note) => {
  const said = h("p.note");
  const body = h("tbody");
  const table = h("table", {}, h("thead", {}, h("tr", {}, ...columns.map(([name, kind]) => h("th", { class: kind }, name)))), body);
  const choice = h("span");
  const made = h("section.card.features", {}, h("header", {}, h("h2", {}, title), h("p.note", {}, note)), choice, h("div.scroll", {}, table), said);
  made.show = async path => {
    const found = await get(path);
    const listed = found.features.slice(0, LISTED);
    table.hidden = !listed.length;
    body.replaceChildren(...listed.map(row));
    said.replaceChildren(...(listed.length
      ? [number("features.length", found.features.length), " were seen, ", number("colliding", found.colliding), " of them share one of the ",
        number("dim", found.dim), " coordinates with another",
        found.features.length > LISTED ? `; the ${LISTED} weightiest are listed` : ""]
      : ["None was seen yet."]));
  };
  made.choose = element => choice.replaceChildren(element);
  return made;
};

// The features of an app, for everybody or for a cohort that is chosen; looked at again every few seconds.
export const appFeatures = name => {
  const card = featuresCard("Features", "what one unit of each adds to the reward that is expected");
  const select = h("select", { name: "whose" });
  const path = () => (select.value === "" ? appPath(name, "features") : appPath(name, "cohorts", select.value, "features"));
  const load = () => card.show(path()).catch(() => {});
  select.addEventListener("change", load);
  card.choose(h("label.whose", {}, "Of", select));
  let known = "";
  // Choices change only when cohorts do: what somebody has chosen stays.
  card.cohorts = cohorts => {
    const now = JSON.stringify(cohorts.map(one => [one.label, one.number]));
    if (now === known && select.options.length) return;
    known = now;
    const before = select.value;
    select.replaceChildren(h("option", { value: "" }, "everybody"), ...cohorts.map(one => h("option", { value: one.number }, `cohort ${one.label}`)));
    select.value = [...select.options].some(one => one.value === before) ? before : "";
  };
  const timer = setInterval(load, 3000);
  load();
  card.stop = () => clearInterval(timer);
  return card;
};

// What is expected of the best candidates of a decision, by names of features.
export const partsCard = candidates => {
  const told = candidates.slice(0, 3).filter(one => one.features?.length);
  if (!told.length) return null;
  const list = (one, at) => h("div", {}, h("h3", {}, one.item),
    h("table", {}, h("tbody", {}, ...one.features.map((part, k) => h("tr", {}, h("td.wraps", {}, part.name),
      h("td.right", {}, number(`reasons.candidates.${at}.features.${k}.part`, part.part, { digits: 3, sign: true })))),
    h("tr.sum", {}, h("td", {}, "expected reward"), h("td.right", {}, number(`reasons.candidates.${at}.expected`, one.expected, { digits: 3 }))))));
  return h("section.card.parts", {}, h("header", {}, h("h2", {}, "By features"),
    h("p.note", {}, "what each adds; level: what is expected where features say nothing; item: the item itself, beyond its features")),
  h("div.columns.thirds", {}, ...told.map(list)));
};
