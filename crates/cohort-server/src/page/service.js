// How the service is asked.

const KEY = "cohort-key";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const setKey = key => sessionStorage.setItem(KEY, key);

const headers = () => {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {};
};

const refusal = async response => {
  const said = await response.json().catch(() => ({}));
  return new Refused(response.status, said.error?.message ?? `the service answers ${response.status}`);
};

export const get = async path => {
  const response = await fetch(path, { headers: headers() });
  if (!response.ok) throw await refusal(response);
  return response.json();
};

export const post = async (path, body) => {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers() },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw await refusal(response);
  return response.json();
};

export const hasKey = () => Boolean(sessionStorage.getItem(KEY));

// Fetches a file with the key and hands it to the browser to keep.
export const download = async (path, name) => {
  const response = await fetch(path, { headers: headers() });
  if (!response.ok) throw await refusal(response);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
};

export const appPath = (app, ...rest) => ["/v1/apps", app, ...rest.map(encodeURIComponent)].join("/");

// Server-sent events, read by hand: an EventSource cannot send a key. Calls `each` for every event and
// `lost` when the connection breaks; tries again until `signal` ends it.
export const follow = async (path, each, lost, signal) => {
  while (!signal.aborted) {
    try {
      const response = await fetch(path, { headers: headers(), signal });
      if (!response.ok) throw await refusal(response);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
          each(JSON.parse(text.slice(text.indexOf(":") + 1, end)));
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      lost(error);
      if (error instanceof Refused && error.status < 500 && error.status !== 429) return;
    }
    await new Promise(resolve => setTimeout(resolve, 1500));
  }
};
