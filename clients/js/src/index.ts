/**
 * Client of recurrank for browsers and Node.
 *
 * Every call may be repeated without further effect, so that what fails on the way is sent again with the same ids. A report is kept in
 * `localStorage` until the server has acknowledged it: what a page could not deliver before it was left, the next page does.
 */
import type { AskSlate, NewReport, RankedSlate, Reported } from "./api.js";

export type * from "./api.js";

export interface Options {
  /** Sent as `Authorization: Bearer ...`. A key in a page is public: give it the role `feedback` only. */
  key?: string;
  /** How often a call is sent again before it is given up; 4 by default. */
  retries?: number;
  /** Milliseconds that one try may take; 5,000 by default. */
  timeout?: number;
  /** Where reports are kept until they are acknowledged; `localStorage` by default, null for nowhere. */
  storage?: Storage | null;
}

export interface ObserverOptions {
  /** The share of an element, or of what fits into the viewport, that has to be there for its position to be seen; 0.5 by default. */
  visible?: number;
}

/** The server refused, or could not be reached (status 0). */
export class RecurrankError extends Error {
  constructor(readonly status: number, detail: string) {
    super(status ? `${status}: ${detail}` : detail);
    this.name = "RecurrankError";
  }
}

const AGAIN = [408, 429, 502, 503, 504];
/** What the server refuses for what is in it. It would always refuse it; with another key or later it may take all else. */
const REFUSED = [400, 413];
/** Milliseconds between two tries at most. */
const LONGEST_PAUSE = 5000;
/** Reports of earlier pages that are sent together: a request that outlives its page may have 64 kB. */
const TOGETHER = 100;
/** Entries in storage at most: what a page cannot deliver for good must not fill it. */
const KEPT = 1000;

export class Recurrank {
  readonly #url: string;
  readonly #options: Options;
  readonly #storage: Storage | null;
  readonly #prefix: string;

  /** `url` is the server's, as `https://ranking.example.com`. Reports that earlier pages left behind are sent. */
  constructor(url: string, options: Options = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#options = options;
    this.#storage = options.storage === undefined ? browserStorage() : options.storage;
    // by the key, too: a server may take a report with one key only
    this.#prefix = `recurrank ${this.#url} ${hash(options.key ?? "")} `;
    void this.flush();
  }

  /** A slate to show. Repeating the call with the same `slate` gives the same slate; without one, an id is chosen. */
  rank(ranker: string, request: AskSlate = {}): Promise<RankedSlate> {
    const body = { ...request, slate: request.slate ?? randomId() };
    return this.#post(`/v1/rankers/${encodeURIComponent(ranker)}/rank`, body, false) as Promise<RankedSlate>;
  }

  /** Report clicks; it arrives although the page is left at once. What became of each report is returned. */
  async feedback(reports: NewReport | NewReport[]): Promise<Reported[]> {
    const list = Array.isArray(reports) ? reports : [reports];
    const kept = this.#keep(list);
    return this.#deliver(list, kept);
  }

  /** Send what is kept; the constructor does this too. Resolves when all of it was tried. */
  async flush(): Promise<void> {
    let some: string[] = [];
    let reports = 0;
    for (const name of this.#kept()) {
      const more = this.#stored(name).length;
      if (some.length && reports + more > TOGETHER) {
        await this.#deliverAll(some);
        [some, reports] = [[], 0];
      }
      some.push(name);
      reports += more;
    }
    if (some.length) await this.#deliverAll(some);
  }

  /**
   * Watch the elements of a slate, in the order of its positions: each click is reported at once, and the end of the visit when
   * the page is left or `stop()` is called, with the positions that were in the viewport: what nobody saw teaches nothing. While
   * the browser keeps a page that was left for its Back button, the visit is open: it goes on when the page is shown again.
   */
  observe(slate: string, elements: ArrayLike<Element>, options: ObserverOptions = {}): SlateObserver {
    return new SlateObserver(this, slate, Array.from(elements), options);
  }

  #keep(reports: NewReport[]): string[] {
    if (!this.#storage) return [];
    const name = this.#prefix + randomId();
    try {
      if (this.#kept().length >= KEPT) return [];
      this.#storage.setItem(name, JSON.stringify(reports));
      return [name];
    } catch {
      return []; // full, or forbidden: it is still sent
    }
  }

  #kept(): string[] {
    const names: string[] = [];
    for (let n = 0; n < (this.#storage?.length ?? 0); n++) {
      const name = this.#storage?.key(n);
      if (name?.startsWith(this.#prefix)) names.push(name);
    }
    return names;
  }

  #stored(name: string): NewReport[] {
    try {
      const found: unknown = JSON.parse(this.#storage?.getItem(name) ?? "");
      return Array.isArray(found) ? found : [];
    } catch {
      return [];
    }
  }

  /** Entries of the storage together; where that is refused in halves, so that one entry does not take the others with it. */
  async #deliverAll(names: string[]): Promise<void> {
    try {
      await this.#deliver(names.flatMap((name) => this.#stored(name)), names);
    } catch (error) {
      if (names.length < 2 || !isRefused(error)) return;
      const half = names.length >> 1;
      await this.#deliverAll(names.slice(0, half));
      await this.#deliverAll(names.slice(half));
    }
  }

  async #deliver(reports: NewReport[], kept: string[]): Promise<Reported[]> {
    let done = true;
    try {
      return reports.length ? ((await this.#post("/v1/feedback", reports, true)) as Reported[]) : [];
    } catch (error) {
      // of several entries nobody knows which one was refused; what did not arrive is tried again by the next page
      done = kept.length === 1 && isRefused(error);
      throw error;
    } finally {
      if (done) for (const name of kept) this.#storage?.removeItem(name);
    }
  }

  async #post(path: string, body: unknown, keepalive: boolean): Promise<unknown> {
    const text = JSON.stringify(body);
    for (let attempt = 0; ; attempt++) {
      let pause = Math.min(LONGEST_PAUSE, 100 * 2 ** attempt) * (0.5 + Math.random() / 2);
      let failure: RecurrankError;
      try {
        const answer = await this.#send(path, text, keepalive);
        if (answer.ok) return await answer.json();
        const detail = await answer.json().then((problem) => String(problem.detail), () => answer.statusText);
        failure = new RecurrankError(answer.status, detail);
        const asked = Number(answer.headers.get("retry-after"));
        if (asked > 0) pause = Math.min(LONGEST_PAUSE, 1000 * asked);
      } catch (error) {
        failure = new RecurrankError(0, `${this.#url} cannot be reached: ${String(error)}`);
      }
      const again = failure.status === 0 || AGAIN.includes(failure.status);
      if (!again || attempt >= (this.#options.retries ?? 4)) throw failure;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  #send(path: string, text: string, keepalive: boolean): Promise<Response> {
    const { key, timeout } = this.#options;
    const url = this.#url + path;
    if (keepalive && !key && !("keepalive" in Request.prototype) && typeof navigator !== "undefined" && navigator.sendBeacon) {
      // old browsers: nobody hears the answer, so that the report stays in storage, and is a duplicate when it is sent again
      navigator.sendBeacon(url, new Blob([text], { type: "application/json" }));
      return Promise.reject(new Error("sent as a beacon, without an answer"));
    }
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (key) headers["authorization"] = `Bearer ${key}`;
    const signal = AbortSignal.timeout(timeout ?? 5000);
    return fetch(url, { method: "POST", headers, body: text, keepalive: keepalive && text.length < 60_000, signal });
  }
}

/** Reports what happens to the elements of one slate. */
export class SlateObserver {
  readonly #client: Recurrank;
  readonly #slate: string;
  readonly #clicks = new Set<number>();
  readonly #seen = new Set<number>();
  #looked = false; // before the first look at the viewport nobody knows what was seen
  readonly #stop = new AbortController();
  readonly #viewport: IntersectionObserver;

  constructor(client: Recurrank, slate: string, elements: Element[], { visible = 0.5 }: ObserverOptions) {
    this.#client = client;
    this.#slate = slate;
    const signal = this.#stop.signal;
    const entered = (entries: IntersectionObserverEntry[]): void => {
      this.#looked = true;
      for (const entry of entries) if (isSeen(entry, visible)) this.#seen.add(elements.indexOf(entry.target));
    };
    // of what is larger than the viewport only a small share can ever be there: it is looked at in steps down to a thousandth
    const threshold = Array.from({ length: 30 }, (_, step) => visible * 0.8 ** step);
    this.#viewport = new IntersectionObserver(entered, { threshold });
    elements.forEach((element, position) => {
      this.#viewport.observe(element);
      for (const kind of ["click", "auxclick"]) {
        const clicked = (event: Event): void => {
          // the middle button opens a tab, the right one only a menu
          if (kind === "click" || (event as MouseEvent).button === 1) this.#clicked(position);
        };
        element.addEventListener(kind, clicked, { capture: true, signal });
      }
    });
    // a page that the browser keeps may be shown again, by the Back button
    addEventListener("pagehide", ({ persisted }) => (persisted ? this.#report(false) : this.stop()), { signal });
  }

  /** Positions that were in the viewport so far, from 0. */
  get seen(): number[] {
    return ascending(this.#seen);
  }

  /** Positions that were clicked so far, from 0. */
  get clicks(): number[] {
    return ascending(this.#clicks);
  }

  /** The visit is over: the final report is sent, and nothing is watched any more. */
  stop(): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    this.#viewport.disconnect();
    this.#report(true);
  }

  #clicked(position: number): void {
    this.#clicks.add(position);
    this.#send({ slate: this.#slate, clicks: [position], final: false });
  }

  #report(final: boolean): void {
    this.#send({ slate: this.#slate, clicks: this.clicks, final, ...(this.#looked ? { seen: this.seen } : {}) });
  }

  #send(report: NewReport): void {
    void this.#client.feedback(report).catch(() => undefined);
  }
}

/** Whether the share of an element is in the viewport, or covers that share of the viewport as far as the element reaches. */
function isSeen(entry: IntersectionObserverEntry, visible: number): boolean {
  const { intersectionRect: there, boundingClientRect: whole, rootBounds } = entry;
  const root = rootBounds ?? whole; // unknown in a frame of another origin
  const most = Math.min(whole.width, root.width) * Math.min(whole.height, root.height);
  return entry.intersectionRatio >= visible || (entry.isIntersecting && there.width * there.height >= visible * most);
}

function ascending(positions: Set<number>): number[] {
  return [...positions].sort((a, b) => a - b);
}

function isRefused(error: unknown): boolean {
  return error instanceof RecurrankError && REFUSED.includes(error.status);
}

/** 32 bits of a text (FNV-1a). */
function hash(text: string): string {
  let bits = 0x811c9dc5;
  for (let n = 0; n < text.length; n++) bits = Math.imul(bits ^ text.charCodeAt(n), 0x01000193);
  return (bits >>> 0).toString(36);
}

function browserStorage(): Storage | null {
  try {
    return typeof document === "undefined" ? null : localStorage;
  } catch {
    return null; // forbidden by the visitor
  }
}

function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
