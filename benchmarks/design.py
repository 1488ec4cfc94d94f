"""``g_optimal`` on a million items against one plain NumPy scan of leverages of the same matrix, and its memory."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.measure import Figure, at_most

SCRIPT = """
import json, re, time
import numpy as np
import recurrank as rr

def status(key):
    return int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read()).group(1)) * 1024

def plain_scan(features, whitening, block=8192):
    lever = np.empty(len(features))
    for start in range(0, len(features), block):
        image = features[start:start + block] @ whitening
        lever[start:start + block] = (image * image).sum(axis=1)
    return lever

items, dim = 1_000_000, 50
features, rng = np.empty((items, dim)), np.random.default_rng(0)
for start in range(0, items, 100_000):
    features[start:start + 100_000] = rng.standard_normal((100_000, dim))
rr.g_optimal(features[:5000])
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
rr.g_optimal(features, 0.05)
peak = status("VmHWM")
scans, designs = [], []
for _ in range(3):
    began = time.perf_counter(); plain_scan(features, np.eye(dim)); scans.append(time.perf_counter() - began)
    began = time.perf_counter(); design = rr.g_optimal(features, 0.05); designs.append(time.perf_counter() - began)
print(json.dumps([min(scans), min(designs), design.value, design.scans, peak / features.nbytes]))
"""


def run() -> list[Figure]:
    out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    scan, design, value, scans, memory = json.loads(out)
    detail = f"{design:.2f} s against {scan:.2f} s; leverage {value:.2f} of 50, {scans} full scans"
    return [
        at_most("g_optimal, L = 10^6, d = 50: time over one NumPy scan", design / scan, 12, "x", detail),
        at_most("its peak resident size over the features' size", memory, 1.4, "x", "the whole process, 400 MB of features"),
    ]
