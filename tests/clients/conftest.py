"""What tests of clients need: a browser, the built client for JavaScript, and a page on an origin of its own."""

from __future__ import annotations

import functools
import http.server
import subprocess
import threading
from pathlib import Path

import pytest
from tests.conftest import LEFT_OUT
from tests.dashboard.conftest import browser, open_page, said  # noqa: F401
from tests.dashboard.running import Server

from recurrank.serving.http.gate import Limits

SOURCE = Path(__file__).parents[2] / "clients" / "js"
TSC = SOURCE / "node_modules" / ".bin" / "tsc"
PAGE = """<!doctype html><title>shop</title><link rel="icon" href="data:,">
<style>a { display: block; height: 400px }</style><main></main>
<script type="module">
import { Recurrank } from "/index.js";
const query = new URLSearchParams(location.search);
const client = new Recurrank(query.get("server"), query.has("forget") ? { storage: null } : {});
const shown = await client.rank("shop", { slate: query.get("slate") });
for (const item of shown.items) {
  const link = document.createElement("a");
  link.href = "/left.html"; link.textContent = item;
  document.querySelector("main").append(link);
}
window.observer = client.observe(shown.slate, document.querySelectorAll("a"));
document.title = "ready";
</script>"""


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """The folder of the compiled client."""
    if not TSC.exists():
        pytest.skip(f"{LEFT_OUT}no TypeScript; `make browser` installs it with npm")
    folder = tmp_path_factory.mktemp("client")
    subprocess.run([TSC, "--project", SOURCE, "--outDir", folder], check=True, timeout=300)
    return folder


@pytest.fixture(scope="session")
def site(built) -> str:
    """A shop's pages, on an origin that is not the service's."""
    (built / "shop.html").write_text(PAGE, encoding="utf-8")
    (built / "left.html").write_text('<!doctype html><title>left</title><link rel="icon" href="data:,">', encoding="utf-8")
    handler = functools.partial(Quiet, directory=str(built))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service(site, tmp_path):
    """A real server that the shop's pages may use."""
    running = Server(f"sqlite:///{tmp_path / 'store.db'}", limits=Limits(origins=(site,)))
    yield running
    running.stop()
