"""Install the built wheel into clean environments, bare and with each extra alone, and run what each promises.

``python .ci/check_dist.py dist [EXTRA ...]`` needs ``uv`` beside its Python. README's example also runs on every other
supported Python found on this machine, and the source distribution is built and imported.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = str(Path(sys.executable).with_name("uv"))
SECONDS = 120
"""Time limit of one step, in seconds."""

EXAMPLE = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S)[0]
TINY = "--items 50 --dim 3 --positions 4 --rounds 2000"
SERVER = """
import json, re, subprocess, sys, urllib.error, urllib.request
from pathlib import Path

recurrank = str(Path(sys.executable).with_name("recurrank"))
command = [recurrank, "serve", "--port", "0", "--store", "sqlite:///served.db"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try:
    for line in server.stdout:
        if found := re.search(r"http://[0-9.:]+", line):
            break
    else:
        raise SystemExit("the server ended before it listened")

    def call(method, path, body=None, kind="application/json"):
        request = urllib.request.Request(found[0] + path, data=body, method=method, headers={"content-type": kind})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
"""

PROMISES: dict[str, list[str]] = {
    "": [
        EXAMPLE,
        f"recurrank simulate {TINY} --clicks position-based --json",
        "recurrank rankers",
        "import numpy as np; np.save('features.npy', np.random.default_rng(0).standard_normal((100, 3)))",
        "recurrank design features.npy --json",
    ],
    "parquet": [
        "import numpy as np, pyarrow as pa, pyarrow.parquet as pq\n"
        "rows = np.random.default_rng(0).standard_normal((100, 3))\n"
        "pq.write_table(pa.table({'a': rows[:, 0], 'b': rows[:, 1], 'c': rows[:, 2]}), 'items.parquet')",
        "recurrank design items.parquet --json",
    ],
    "report": [
        "recurrank paper --environments cascade --rankers recurrank --runs 1 --rounds-scale 0.001 --jobs 1 --out report",
        "from pathlib import Path; assert {'report.html', 'results.parquet', 'table.tex', 'regret.png'} <= "
        "{p.name for p in Path('report').iterdir()}",
    ],
    "dask": [
        "import subprocess, sys\n"
        "from distributed import LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:\n"
        f"        command = [sys.executable, '-m', 'recurrank', 'compare', *'{TINY} --rankers recurrank --runs 2'.split()]\n"
        "        subprocess.run([*command, '--engine', 'dask:' + cluster.scheduler_address], check=True, timeout=200)",
    ],
    "serve": [
        SERVER + "    assert call('GET', '/healthz')[0] == 200\n"
        "    items = [{'id': f'film-{n}', 'features': [1, n / 4]} for n in range(4)]\n"
        "    status, body = call('PUT', '/v1/rankers/films', json.dumps({'positions': 2, 'items': items}).encode())\n"
        "    assert status == 200, body\n"
        "    status, body = call('POST', '/v1/rankers/films/rank', b'{\"slate\": \"page-7\"}')\n"
        "    assert status == 200 and len(json.loads(body)['items']) == 2, body\n"
        "    assert call('POST', '/v1/feedback', b'[{\"slate\": \"page-7\", \"clicks\": [0]}]')[0] == 200\n"
        "    status, body = call('PUT', '/v1/rankers/more?positions=2', b'PAR1PAR1', 'application/vnd.apache.parquet')\n"
        "    assert status == 415 and 'pyarrow' in json.loads(body)['detail'], (status, body)  # it is not installed\n"
        "    for page in ('/', '/docs', '/playground', '/metrics', '/openapi.json'):\n"
        "        status, body = call('GET', page)\n"
        "        assert status == 200 and body, page\n"
        "finally:\n"
        "    server.terminate()\n"
        "    server.wait(20)\n",
    ],
    "postgres": ["import psycopg, recurrank; from recurrank.serving.store import postgres"],
    "otel": [
        "from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter; OTLPSpanExporter().shutdown()"
    ],
    "client": [
        "import http.server, json, threading\n"
        "import recurrank as rr\n"
        "class Answer(http.server.BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        slate = json.loads(self.rfile.read(int(self.headers['content-length'])))['slate']\n"
        "        body = json.dumps({'slate': slate, 'items': ['a', 'b'], 'version': 1}).encode()\n"
        "        self.send_response(200)\n"
        "        self.send_header('content-length', str(len(body)))\n"
        "        self.end_headers()\n"
        "        self.wfile.write(body)\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Answer)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "with rr.Client(f'http://127.0.0.1:{server.server_port}') as client:\n"
        "    assert client.rank('films').items == ['a', 'b']\n",
    ],
}
"""By extra: Python programs, and command lines that begin with ``recurrank``."""


def main(folder: Path, only: list[str]) -> int:
    """Whether every environment kept its promises, or those of the extras named."""
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(declared["optional-dependencies"]) - {"dev", "docs"}
    if extras != set(PROMISES) - {""}:
        print(f"check_dist.py and pyproject.toml disagree about the extras: {sorted(extras ^ (set(PROMISES) - {''}))}")
        return 1
    cases = [(extra, sys.executable, wheel) for extra in PROMISES]
    cases += [("python", python, wheel) for python in others(declared["classifiers"])] + [("source", sys.executable, source)]
    cases = [case for case in cases if not only or case[0] in only]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(2) as pool:
        wrong = list(pool.map(lambda case: check(Path(tempfile.mkdtemp(dir=work)), *case), cases))
    print(f"{len(cases)} environments in {time.monotonic() - began:.0f} s, {sum(wrong)} with errors")
    return int(any(wrong))


def others(classifiers: list[str]) -> list[str]:
    """Interpreters of the other Pythons that the classifiers name, as far as they run here."""
    names = [found[1] for line in classifiers if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))]
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = []
    for name in names:
        pyenv = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{name}.*/bin/python{name}"))
        python = str(pyenv[-1]) if pyenv else shutil.which(f"python{name}")
        if name != here and python and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            found.append(python)
    return found


def check(work: Path, extra: str, python: str, package: Path) -> bool:
    """Whether something is wrong with the package in an environment of its own, with one extra."""
    began, bin_ = time.monotonic(), work / "venv" / "bin"
    promises = {**PROMISES, "python": [EXAMPLE], "source": ["import recurrank"]}[extra]
    target = f"recurrank[{extra}] @ {package.resolve().as_uri()}" if extra in PROMISES and extra else str(package.resolve())
    locked = ["--constraint", str(ROOT / "requirements-dev.lock")]
    steps = [
        [UV, "venv", "--quiet", "--python", python, str(work / "venv")],
        [UV, "pip", "install", "--quiet", "--python", str(bin_ / "python"), *locked, target],
    ]
    for number, promise in enumerate(promises):
        if promise.startswith("recurrank "):
            steps.append([str(bin_ / "recurrank"), *promise.split()[1:]])
        else:
            program = work / f"program{number}.py"
            program.write_text(promise, encoding="utf-8")
            steps.append([str(bin_ / "python"), str(program)])
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "RECURRANK"))}
    label = Path(python).name if extra == "python" else extra or "bare"
    for step in steps:
        code, said = run(step, work, clean)
        if code:
            print(f"{label}: {' '.join(step)} ended with {code}\n{said[-4000:]}", flush=True)
            return True
    print(f"{label}: {len(promises)} of {len(promises)} kept, {time.monotonic() - began:.0f} s", flush=True)
    return False


def run(step: list[str], work: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a command; one that takes too long is ended with all its children."""
    with subprocess.Popen(
        step, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said = f"{process.communicate()[0]}\nnot done after {SECONDS} seconds"
        return process.returncode, said


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
