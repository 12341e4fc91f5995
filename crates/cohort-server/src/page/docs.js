// Every route of the service, to try.

// What the service says is a good body; made-up values would be refused, or worse, taken.
const example = (schema, all) =>
  (schema.$ref ? all[schema.$ref.split("/").pop()] : schema)?.example ?? {};
const element = (name, text) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return made;
};
const show = (path, method, operation, schemas) => {
  const box = element("details"), head = element("summary"), form = element("form");
  head.append(Object.assign(element("span", method), { className: "method" }),
              element("code", path), " ", operation.summary || operation.description || "");
  if (operation.responses?.["200"]?.content?.["text/event-stream"]) {
    box.append(head, element("p", "This answer never ends, so it cannot be tried here: curl -N shows it."));
    return box;
  }
  const fields = (operation.parameters || []).map(parameter => {
    const label = element("label", parameter.name + " "), input = element("input");
    input.required = true;
    label.append(input);
    form.append(label);
    return [parameter.name, input];
  });
  const schema = operation.requestBody?.content?.["application/json"]?.schema;
  const body = element("textarea");
  body.setAttribute("aria-label", "body");
  if (schema) { body.value = JSON.stringify(example(schema, schemas), null, 2); form.append(body); }
  box.append(head, form);
  const answer = element("pre");
  form.append(element("button", "Send"), answer);
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const at = fields.reduce((url, [name, input]) =>
      url.replace(`{${name}}`, encodeURIComponent(input.value)), path);
    const headers = {}, key = document.getElementById("key").value;
    if (key) headers.Authorization = `Bearer ${key}`;
    if (schema) headers["Content-Type"] = "application/json";
    try {
      const response = await fetch(at, { method: method.toUpperCase(), headers,
                                         body: schema ? body.value : undefined });
      const text = await response.text();
      let shown = text;
      try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch {}
      answer.textContent = `${response.status} ${response.statusText}\n${shown}`;
    } catch (why) { answer.textContent = String(why); }
  });
  return box;
};
fetch("/openapi.json").then(response => response.json()).then(api => {
  const list = document.getElementById("operations");
  // What apps ask comes first, what operators ask last.
  const isForApps = path => path.startsWith("/v1/");
  const paths = Object.entries(api.paths).sort(([a], [b]) => isForApps(b) - isForApps(a));
  for (const [path, methods] of paths)
    for (const [method, operation] of Object.entries(methods))
      list.append(show(path, method, operation, api.components?.schemas || {}));
});
