// The cohort map: every dot a user, where its estimate is, in the colour of its cohort.
//
// Positions come once a second and dots glide to them. A canvas draws the 1,500 dots of a sample in a
// millisecond, so it stays smooth however many users there are.

import { HUES, colour, format, h, hue } from "./elements.js";

const GLIDE_MS = 700;

export const cohortMap = open => {
  const canvas = h("canvas", {
    tabindex: 0, role: "application",
    "aria-label": "Map of users by taste. Arrow keys go from user to user, Enter opens one.",
  });
  const tip = h("div.tip", { hidden: true });
  const nothing = h("p.empty", {}, "Users appear here once something is known of them.");
  const made = h("div.map", {}, canvas, nothing, tip);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const dots = new Map();
  let labels = new Map(), view = null, began = 0, frame = 0, chosen = null;

  const now = dot => {
    const t = still.matches ? 1 : Math.min(1, (performance.now() - began) / GLIDE_MS);
    const eased = 1 - (1 - t) ** 3;
    return [dot.from[0] + (dot.to[0] - dot.from[0]) * eased, dot.from[1] + (dot.to[1] - dot.from[1]) * eased];
  };

  const place = ([x, y]) => [
    canvas.clientWidth / 2 + (x - view.x) * view.scale,
    canvas.clientHeight / 2 - (y - view.y) * view.scale,
  ];

  const draw = () => {
    frame = 0;
    const [width, height, ratio] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
    if (!width || !view) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      fit();
    }
    const paint = canvas.getContext("2d");
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    const paints = new Map([...HUES, "stone"].map(name => [name, colour(name)]));
    for (const dot of dots.values()) {
      const [x, y] = place(now(dot));
      const radius = dot.radius;
      paint.globalAlpha = .25 + .6 * dot.share;
      paint.fillStyle = paints.get(hue(dot.colour));
      paint.beginPath();
      // Past seven cohorts hues come again, as squares.
      if (dot.colour >= HUES.length) paint.rect(x - radius, y - radius, 2 * radius, 2 * radius);
      else paint.arc(x, y, radius, 0, 2 * Math.PI);
      paint.fill();
    }
    paint.globalAlpha = 1;
    write(paint);
    if (chosen && dots.has(chosen)) {
      const [x, y] = place(now(dots.get(chosen)));
      paint.strokeStyle = colour("ink");
      paint.lineWidth = 2;
      paint.beginPath();
      paint.arc(x, y, dots.get(chosen).radius + 4, 0, 2 * Math.PI);
      paint.stroke();
    }
    if (performance.now() - began < GLIDE_MS && !still.matches) ask();
  };

  // The letters of the cohorts, in the middle of their users.
  const write = paint => {
    const middles = new Map();
    for (const dot of dots.values()) {
      if (dot.colour === null) continue;
      const [x, y] = place(now(dot));
      // Users of whom much is known say more about where their cohort is.
      const weight = dot.share * dot.rewards;
      const middle = middles.get(dot.colour) ?? [0, 0, 0, 0];
      middles.set(dot.colour, [middle[0] + weight * x, middle[1] + weight * y, middle[2] + weight, middle[3] + 1]);
    }
    paint.font = "600 15px system-ui, sans-serif";
    paint.textAlign = "center";
    paint.textBaseline = "middle";
    paint.lineJoin = "round";
    for (const [index, [x, y, weight, count]] of middles) {
      if (count < 3 || !labels.has(index)) continue;
      paint.lineWidth = 5;
      paint.strokeStyle = colour("paper");
      paint.strokeText(labels.get(index), x / weight, y / weight);
      paint.fillStyle = colour("ink");
      paint.fillText(labels.get(index), x / weight, y / weight);
    }
  };

  const ask = () => { frame ||= requestAnimationFrame(draw); };

  // What is seen of the plane: all dots, with room around them. It changes only when it must.
  const fit = () => {
    const places = [...dots.values()].map(dot => dot.to);
    if (!places.length) return;
    const [xs, ys] = [places.map(p => p[0]), places.map(p => p[1])];
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const room = 44;
    const scale = Math.min((canvas.clientWidth - room) / (right - left || 1), (canvas.clientHeight - room) / (high - low || 1));
    const outside = view && places.some(p => {
      const [x, y] = place(p);
      return x < 8 || y < 8 || x > canvas.clientWidth - 8 || y > canvas.clientHeight - 8;
    });
    if (!view || outside || scale > view.scale * 1.3 || scale < view.scale / 1.3) {
      view = { x: (left + right) / 2, y: (low + high) / 2, scale };
    }
  };

  const nearest = (x, y, reach, is = () => true) => {
    let best = null, least = reach * reach;
    for (const dot of dots.values()) {
      const [dx, dy] = place(now(dot)).map((at, k) => at - [x, y][k]);
      const far = dx * dx + dy * dy;
      if (far < least && is(dx, dy)) [best, least] = [dot.user, far];
    }
    return best;
  };

  const choose = user => {
    chosen = user;
    const dot = dots.get(user);
    tip.hidden = !dot;
    canvas.style.cursor = dot ? "pointer" : "";
    if (dot) {
      const [x, y] = place(now(dot));
      const name = dot.colour === null ? "no cohort" : `cohort ${labels.get(dot.colour) ?? ""}`;
      tip.replaceChildren(h("b", {}, dot.user), h("br"), `${name}, ${format(dot.share * 100)} %`, h("br"), `${format(dot.rewards)} rewards`);
      tip.style.left = `${Math.min(x + 14, canvas.clientWidth - 150)}px`;
      tip.style.top = `${Math.max(0, Math.min(y - 10, canvas.clientHeight - 76))}px`;
      tip.setAttribute("role", "status");
    }
    ask();
  };

  canvas.addEventListener("pointermove", event => choose(nearest(event.offsetX, event.offsetY, 18)));
  canvas.addEventListener("pointerleave", () => choose(null));
  canvas.addEventListener("blur", () => choose(null));
  canvas.addEventListener("click", event => {
    const user = nearest(event.offsetX, event.offsetY, 18);
    if (user) open(user);
  });
  canvas.addEventListener("keydown", event => {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[event.key];
    if (event.key === "Enter" && chosen) return open(chosen);
    if (!way || !view) return;
    event.preventDefault();
    if (!chosen) return choose(nearest(canvas.clientWidth / 2, canvas.clientHeight / 2, Infinity));
    const [x, y] = place(now(dots.get(chosen)));
    const ahead = (dx, dy) => dx * way[0] + dy * way[1] > 1 && Math.abs(dx * way[1] + dy * way[0]) <= dx * way[0] + dy * way[1];
    choose(nearest(x, y, Infinity, ahead) ?? chosen);
  });
  new ResizeObserver(() => { if (dots.size) { view = null; fit(); ask(); } }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ask);

  made.redraw = ask;
  made.show = (points, cohorts) => {
    labels = new Map(cohorts.map(cohort => [cohort.colour, cohort.label]));
    const seen = new Set();
    for (const { user, x, y, colour, share, rewards } of points) {
      seen.add(user);
      const before = dots.get(user);
      const dot = { user, colour: colour ?? null, share, rewards, to: [x, y], radius: Math.min(6.5, 2.2 + .55 * Math.sqrt(rewards)) };
      dots.set(user, { ...dot, from: before ? now(before) : [x, y] });
    }
    for (const user of dots.keys()) if (!seen.has(user)) dots.delete(user);
    began = performance.now();
    nothing.hidden = dots.size > 0;
    fit();
    ask();
    made.dataset.dots = dots.size;
  };
  return made;
};
