// Downloads.

import { ask, key } from "./api.js";
import { el } from "./dom.js";

/** Download bytes or text as a file. */
export function give(content, name, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Make a link send the key, if there is one; without a key the browser downloads by itself, also large files. */
export function keyed(link, failed) {
  link.addEventListener("click", async (event) => {
    if (!key.get()) return;
    event.preventDefault();
    try {
      give(await (await ask(link.getAttribute("href"))).blob(), link.getAttribute("download"));
    } catch (error) {
      failed(error);
    }
  });
}
