// Figures in SVG: each is drawn anew at the width it has.

import { colour, format, h, hue, s } from "./elements.js";

// An element that draws itself whenever its width or its data changes.
export const figure = (label, draw) => {
  const made = h("figure", { role: "img", "aria-label": label });
  let data = null;
  const redraw = () => {
    const width = made.clientWidth;
    if (width > 0 && data) made.replaceChildren(draw(data, width));
  };
  new ResizeObserver(redraw).observe(made);
  made.redraw = redraw;
  made.show = next => {
    data = next;
    redraw();
  };
  return made;
};

const ticks = (low, high, wanted) => {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(step => step >= rough);
  const all = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) all.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return { all, digits };
};

const scale = (from, to) => value => to[0] + (value - from[0]) / (from[1] - from[0] || 1) * (to[1] - to[0]);

// The average reward of policy and control, with the bands that hold at all times.
export const curve = (points, width) => {
  const height = 270, left = 46, bottom = 30, top = 8, right = 8;
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height });
  const known = points.filter(point => point.policy.mean !== null || point.control.mean !== null);
  if (known.length < 2) return h("p.empty", {}, "No curve yet: it begins with the first rewards.");
  const late = known.slice(Math.min(known.length - 2, Math.ceil(known.length * .08)));
  const values = late.flatMap(p => [p.policy, p.control]).flatMap(a => [a.low, a.high, a.mean]).filter(v => v !== null);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const pad = (high - low) * .06 || .1;
  const x = scale([0, known.at(-1).rewards], [left, width - right]);
  const y = scale([low - pad, high + pad], [height - bottom, top]);
  const rows = ticks(low - pad, high + pad, 5), columns = ticks(0, known.at(-1).rewards, Math.max(2, width / 130));
  for (const at of rows.all) {
    svg.append(s("line", { class: "grid", x1: left, x2: width - right, y1: y(at), y2: y(at) }),
      s("text", { class: "axis", x: left - 8, y: y(at) + 4, "text-anchor": "end" }, format(at, rows.digits)));
  }
  for (const at of columns.all) {
    svg.append(s("text", { class: "axis", x: x(at), y: height - 10, "text-anchor": at ? "middle" : "start" }, format(at)));
  }
  const clip = `clip-${Math.round(width)}`;
  svg.append(s("clipPath", { id: clip }, s("rect", { x: left, y: 0, width: Math.max(0, width - left - right), height: Math.max(0, height - bottom) })));
  const drawn = s("g", { "clip-path": `url(#${clip})` });
  for (const [group, name, dash] of [["control", "stone", "6 4"], ["policy", "blue", ""]]) {
    const banded = known.filter(point => point[group].low !== null);
    const edge = (side, list) => list.map(point => `${x(point.rewards).toFixed(1)},${y(point[group][side]).toFixed(1)}`);
    if (banded.length > 1) {
      const outline = [...edge("high", banded), ...edge("low", [...banded].reverse())].join(" ");
      drawn.append(s("polygon", { points: outline, fill: colour(name), "fill-opacity": .16 }));
    }
    const means = known.filter(point => point[group].mean !== null);
    drawn.append(s("polyline", {
      points: edge("mean", means).join(" "), fill: "none", stroke: colour(name), "stroke-width": 2,
      "stroke-dasharray": dash, "stroke-linejoin": "round",
    }));
  }
  svg.append(drawn);
  return svg;
};

// What a user likes, feature by feature: the estimate, its uncertainty, and the average user.
export const estimate = ({ values, deviations, average, names, index }, width) => {
  const row = 30, top = 6, bottom = 26, left = Math.min(130, 24 + 7.2 * Math.max(...names.map(name => name.length)));
  const height = top + bottom + row * values.length;
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height });
  const ends = values.flatMap((value, k) => [value - 2 * deviations[k], value + 2 * deviations[k], average[k] ?? 0]);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const x = scale([low, high], [left, width - 14]);
  const columns = ticks(low, high, Math.max(3, width / 110));
  for (const at of columns.all) {
    svg.append(s("line", { class: Math.abs(at) < 1e-9 ? "zero" : "grid", x1: x(at), x2: x(at), y1: top, y2: height - bottom }),
      s("text", { class: "axis", x: x(at), y: height - 8, "text-anchor": "middle" }, format(at, columns.digits)));
  }
  values.forEach((value, k) => {
    const y = top + row * (k + .5);
    svg.append(
      s("text", { class: "axis", x: left - 12, y: y + 4, "text-anchor": "end" }, names[k]),
      s("line", { x1: x(value - 2 * deviations[k]), x2: x(value + 2 * deviations[k]), y1: y, y2: y, stroke: colour(hue(index)), "stroke-width": 6, "stroke-opacity": .28, "stroke-linecap": "round" }),
      s("circle", { cx: x(value), cy: y, r: 5, fill: colour(hue(index)) }));
    if (average[k] !== undefined) {
      svg.append(s("line", { x1: x(average[k]), x2: x(average[k]), y1: y - 9, y2: y + 9, stroke: colour("muted"), "stroke-width": 2 }));
    }
  });
  return svg;
};

// Why this item: what each candidate's score is made of, one step after the other.
export const PARTS = [["population", "stone"], ["cohort", "green"], ["own", "blue"], ["bonus", "orange"]];

export const reasons = (candidates, width) => {
  // What the item itself adds is known of apps that take JSON.
  const hasItems = candidates.some(candidate => candidate.item_effect !== undefined);
  const told = hasItems ? [...PARTS.slice(0, -1), ["item_effect", "purple"], ...PARTS.slice(-1)] : PARTS;
  const lane = 7, row = told.length * lane + 20, top = 4, bottom = 26;
  const longest = Math.max(...candidates.map(candidate => candidate.item.length));
  const left = Math.min(width * .34, 24 + 7.4 * longest), right = 58;
  const height = top + bottom + row * candidates.length;
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height });
  const steps = candidates.map(candidate => {
    const parts = candidate.own === null ? [["expected", "blue", candidate.expected], ["bonus", "orange", candidate.bonus]]
      : told.map(([part, name]) => [part, name, candidate[part] ?? 0]);
    let sum = 0;
    return parts.map(([part, name, value]) => ({ part, name, from: sum, to: sum += value }));
  });
  const ends = steps.flat().flatMap(step => [step.from, step.to]);
  const [low, high] = [Math.min(0, ...ends), Math.max(...ends)];
  const x = scale([low, high], [left, width - right]);
  const columns = ticks(low, high, Math.max(3, (width - left) / 110));
  for (const at of columns.all) {
    svg.append(s("line", { class: Math.abs(at) < 1e-9 ? "zero" : "grid", x1: x(at), x2: x(at), y1: top, y2: height - bottom }),
      s("text", { class: "axis", x: x(at), y: height - 8, "text-anchor": "middle" }, format(at, columns.digits)));
  }
  candidates.forEach((candidate, k) => {
    const y = top + row * k + 8;
    const label = s("text", { x: left - 12, y: y + told.length * lane / 2 + 4, "text-anchor": "end", fill: "currentColor", "font-size": 13, "font-weight": k ? 400 : 650 });
    const fits = Math.floor((left - 24) / 7.2);
    label.textContent = candidate.item.length > fits ? `${candidate.item.slice(0, fits - 1)}…` : candidate.item;
    svg.append(label);
    steps[k].forEach((step, at) => {
      const [a, b] = [x(step.from), x(step.to)];
      const part = s("rect", { x: Math.min(a, b), y: y + at * lane, width: Math.max(1.5, Math.abs(b - a)), height: lane - 1, rx: 1.5, fill: colour(step.name) });
      part.append(s("title", {}, `${step.part} ${format(step.to - step.from, 3, true)}`));
      svg.append(part);
      if (at + 1 < steps[k].length) svg.append(s("line", { class: "zero", x1: b, x2: b, y1: y + at * lane, y2: y + (at + 2) * lane - 1, "stroke-width": 1 }));
    });
    const score = s("text", { class: "axis", x: x(candidate.score) + 7, y: y + (steps[k].length - .5) * lane + 4, "font-weight": 600 }, format(candidate.score, 3));
    svg.append(score);
  });
  return svg;
};
