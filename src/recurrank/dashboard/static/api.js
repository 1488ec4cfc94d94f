// Requests to the server: JSON, events, and the key, if one is needed.

const KEY = "recurrank-key", AWAY = "The server does not answer.";

/** An error of the server: its status, and one line that may begin with the name of a field. */
export class Problem extends Error {
  constructor(status, detail, errors = {}) {
    super(detail);
    this.status = status;
    this.errors = errors; // all errors by field, if there are several
  }

  /** The field that the line is about, and the rest of the line. */
  get parts() {
    const inside = /^(?:body: )?(.*) - at `\$\.(\w+)`$/s.exec(this.message);
    if (inside) return [inside[2], inside[1]];
    const found = /^([A-Za-z_][\w .-]{0,40}?)(\[\d+\])?: (.*)$/s.exec(this.message);
    return found ? [found[1], found[3]] : ["", this.message];
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (secret) => (secret ? sessionStorage.setItem(KEY, secret) : sessionStorage.removeItem(KEY)),
};

/** Make a request; throws Problem if it fails. */
export async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, AWAY);
  }
  if (answer.ok) return answer;
  if (answer.status === 401 || answer.status === 403) document.dispatchEvent(new CustomEvent("key-needed"));
  const said = await answer.json().catch(() => ({}));
  throw new Problem(answer.status, said.detail || `The server answered ${answer.status}.`, said.errors);
}

/** The JSON at an address. */
export async function json(path, options = {}) {
  return (await ask(path, options)).json();
}

/** Server-sent events, until the server or the signal ends them. Uses fetch, since EventSource sends no key. */
export async function* events(path, options = {}) {
  const answer = await ask(path, options);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  try {
    for (;;) {
      const { value, done } = await reader.read().catch(broken);
      if (done) return;
      waiting += value;
      const whole = waiting.split("\n\n");
      waiting = whole.pop();
      for (const block of whole) {
        const event = parsed(block);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Replace the browser's own errors for a broken stream, "network error" or "Error in input stream". */
function broken(error) {
  throw error.name === "AbortError" ? error : new Problem(0, AWAY);
}

function parsed(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  return data.length ? { name, data: JSON.parse(data.join("\n")) } : null;
}
