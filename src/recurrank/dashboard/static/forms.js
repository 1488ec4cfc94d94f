// Errors at their fields. A field "x" has an input named x and, below it, an element with the id "x-error".

import { say } from "./dom.js";

export function clear(form) {
  for (const input of form.elements) if (input.name) input.removeAttribute("aria-invalid");
  for (const error of form.querySelectorAll(".error")) say(error, "");
}

/** Tell an error at its field, or below the form when it has none there. */
export function tell(form, field, message) {
  const input = form.elements.namedItem(field);
  const target = form.querySelector(`[id="${CSS.escape(field)}-error"]`) || form.querySelector("[id$=form-error]");
  say(target, message);
  const first = input instanceof RadioNodeList ? input[0] : input;
  if (!first) return;
  if (target.id === `${field}-error`) first.setAttribute("aria-invalid", "true");
  first.focus();
}
