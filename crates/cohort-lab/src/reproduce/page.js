// Values under the pointer. Everything it needs is in the page.
(() => {
  const tip = document.getElementById("tip");
  const svgNamespace = "http://www.w3.org/2000/svg";
  const number = (v) => (Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 1 ? v.toFixed(2) : v.toPrecision(3));
  const cell = (row, text) => { const td = row.insertCell(); td.textContent = text; return td; };

  // The place of the x nearest to the pointer, on the panel's own scale.
  const nearest = (xs, x, log) => {
    const far = (v) => Math.abs(log ? Math.log(v / x) : v - x);
    return xs.reduce((best, v, k) => (far(v) < far(xs[best]) ? k : best), 0);
  };

  const show = (drawing, panels, event) => {
    const svg = drawing.querySelector("svg");
    const matrix = svg.getScreenCTM();
    if (!matrix) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    const panel = panels.find(({ frame: [x0, y0, x1, y1] }) => at.x >= x0 - 4 && at.x <= x1 + 4 && at.y >= y0 - 8 && at.y <= y1 + 8);
    const line = drawing.line;
    if (!panel || !panel.series.length) { tip.hidden = true; line.setAttribute("visibility", "hidden"); return; }
    const [x0, y0, x1, y1] = panel.frame, [low, high] = panel.domain;
    const share = Math.min(1, Math.max(0, (at.x - x0) / (x1 - x0)));
    const x = panel.log ? low * (high / low) ** share : low + share * (high - low);
    const rows = panel.series.filter((s) => s.y.length).map((s) => {
      const xs = s.x ?? panel.series[0].x;
      const k = nearest(xs, x, panel.log);
      return { name: s.name, colour: s.colour, x: xs[k], y: s.y[k], margin: s.margin[k] };
    }).sort((a, b) => b.y - a.y);
    const place = rows[0].x;
    const along = panel.log ? Math.log(place / low) / Math.log(high / low) : (place - low) / (high - low);
    const px = x0 + along * (x1 - x0);
    for (const [name, value] of [["x1", px], ["x2", px], ["y1", y0], ["y2", y1], ["visibility", "visible"]]) line.setAttribute(name, value);

    tip.replaceChildren();
    const head = document.createElement("div");
    head.textContent = `${panel.title} · ${panel.xLabel} ${number(place)}`;
    const table = document.createElement("table");
    for (const row of rows) {
      const tr = table.insertRow();
      const name = cell(tr, row.name);
      const key = document.createElement("span");
      key.className = `key b-${row.colour}`;
      name.prepend(key);
      cell(tr, number(row.y) + (row.margin > 0 ? ` ± ${number(row.margin)}` : ""));
    }
    tip.append(head, table);
    tip.hidden = false;
    const left = event.clientX + 16 + tip.offsetWidth > innerWidth ? event.clientX - 16 - tip.offsetWidth : event.clientX + 16;
    const top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8);
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  };

  for (const drawing of document.querySelectorAll(".drawing")) {
    const panels = JSON.parse(drawing.querySelector("script").textContent);
    const line = document.createElementNS(svgNamespace, "line");
    for (const [name, value] of [["class", "s-muted"], ["stroke", "#5c626d"], ["stroke-dasharray", "3 3"], ["visibility", "hidden"]]) line.setAttribute(name, value);
    drawing.querySelector("svg").append(line);
    drawing.line = line;
    drawing.addEventListener("pointermove", (event) => show(drawing, panels, event));
    drawing.addEventListener("pointerdown", (event) => show(drawing, panels, event));
    drawing.addEventListener("pointerleave", () => { tip.hidden = true; line.setAttribute("visibility", "hidden"); });
  }
})();
