// Follow a ranker as long as the page is open. A browser opens at most six connections to a server, so tabs that show the same
// ranker share one: the tab that holds a lock listens to the server and informs the others. Without locks (browsers provide none
// to pages from an unencrypted network) every tab listens for itself.

import { events, key } from "./api.js";

const leaving = new AbortController();
addEventListener("pagehide", () => leaving.abort());

/** Call ``heard`` with every event, and ``state`` with "live", or "lost" and the status of what went wrong. */
export async function follow(path, heard, state) {
  while (!leaving.signal.aborted) {
    const given = new Promise((resolve) => document.addEventListener("key-given", resolve, { once: true }));
    const status = await (navigator.locks ? together(path, heard, state) : alone(path, heard, state));
    if (status === 404) return;
    await given; // it was refused: another key may be accepted
  }
}

/** One tab of several. */
async function together(path, heard, state) {
  const name = `${path} ${await mark(key.get())}`;
  const channel = new BroadcastChannel(name);
  let last = null, holding = false;
  const tell = (message) => { last = message; channel.postMessage(message); };
  channel.onmessage = ({ data }) => {
    if (data.hello) { if (holding && last) channel.postMessage(last); }
    else if (data.event) { state("live"); heard(data.event); }
    else state("lost", data.status);
  };
  channel.postMessage({ hello: true });
  try {
    return await navigator.locks.request(name, { signal: leaving.signal }, () => {
      holding = true;
      return alone(path, (event) => { heard(event); tell({ event }); }, (now, status) => { state(now, status); if (now === "lost") tell({ status }); });
    });
  } catch (error) {
    if (!leaving.signal.aborted) throw error;
    return 0;
  } finally {
    channel.close();
  }
}

/** A digest that distinguishes keys without revealing them. */
async function mark(secret) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  return [...new Uint8Array(digest).slice(0, 8)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Listen to the server; reconnects after a lost connection. Returns the status of a refusal. */
async function alone(path, heard, state) {
  for (let pause = 500; !leaving.signal.aborted; pause = Math.min(2 * pause, 5000)) {
    try {
      for await (const event of events(path, { signal: leaving.signal })) {
        state("live");
        pause = 500;
        heard(event);
      }
      state("lost", 0);
    } catch (error) {
      if (leaving.signal.aborted) return 0;
      state("lost", error.status);
      if ([401, 403, 404].includes(error.status)) return error.status;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  return 0;
}
