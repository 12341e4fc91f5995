// How elements are made, and how numbers are written.

// h("p.note", { title: "…" }, "text", child, …)
export const h = (tag, attributes = {}, ...children) => {
  const [name, ...classes] = tag.split(".");
  const made = document.createElement(name);
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined));
  return made;
};

export const s = (name, attributes = {}, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

export const format = (value, digits = 0, sign = false) =>
  value === null || value === undefined ? "–"
    : new Intl.NumberFormat("en", {
      minimumFractionDigits: digits, maximumFractionDigits: digits, signDisplay: sign ? "exceptZero" : "auto",
    }).format(value).replace("-", "−");

// A number of the API, shown: `api` is where it is found there, so that a test can compare the two.
export const number = (api, value, { digits = 0, scale = 1, sign = false, unit = "" } = {}) => {
  const made = h("span.number", { "data-api": api, "data-digits": digits, "data-scale": scale });
  made.textContent = value === null || value === undefined ? "–" : format(value * scale, digits, sign) + unit;
  return made;
};

// Colours: seven hues, then again with another shape.
export const HUES = ["blue", "vermillion", "green", "purple", "orange", "sky", "wine"];
export const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const hue = index => (index === null || index === undefined ? "stone" : HUES[index % HUES.length]);
export const dot = index =>
  h(`span.dot${index === null || index === undefined ? "" : `.c${index % HUES.length}`}`, { "aria-hidden": "true" });

export const ago = (then_ms, now_ms) => {
  const seconds = Math.max(0, Math.round((now_ms - then_ms) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min ago` : new Date(then_ms).toLocaleString();
};

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
