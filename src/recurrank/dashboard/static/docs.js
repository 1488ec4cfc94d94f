// The API page: Swagger UI over /openapi.json, with the key of these pages.

import { json, key } from "./api.js";
import { byId, say } from "./dom.js";

/** Send the key, if there is one, with requests that are tried out; a refused one asks for the key. */
function withKey(request) {
  if (key.get()) request.headers.authorization = `Bearer ${key.get()}`;
  return request;
}

function refused(response) {
  if (response.status === 401) document.dispatchEvent(new CustomEvent("key-needed"));
  return response;
}

async function show() {
  let spec;
  try {
    spec = await json("/openapi.json");
  } catch (error) {
    say(byId("api-error"), error.message);
    return;
  }
  say(byId("api-error"), "");
  window.SwaggerUIBundle({
    spec,
    domNode: byId("api"),
    deepLinking: true,
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    requestInterceptor: withKey,
    responseInterceptor: refused,
    validatorUrl: null,
    onComplete: () => document.body.setAttribute("data-complete", ""),
  });
}

document.addEventListener("key-given", show);
show();
