"""Both engines, killed or not, count the same, bit for bit."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from atlas_models import CORPUS, encoder

from headwise.analysis.atlas.results import Atlas
from headwise.analysis.atlas.run import atlas
from headwise.errors import HeadwiseError

HERE = Path(__file__).parent
THERE = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from atlas_models import CORPUS, encoder
from headwise.analysis.atlas import progress, run
run.SAVE_EVERY = 0.0
def step(what, done, of):
    print(what, done, flush=True)
    if what == "sentences" and done >= 16:
        time.sleep(60)
run.atlas(encoder(dim=24, heads=3), CORPUS, out=sys.argv[2], knockouts=0, threads=1, chunk=8, step=step)
"""


def same(one: Atlas, other: Atlas) -> bool:
    """Equal to the last bit."""
    assert one.cells.keys() == other.cells.keys()
    cells = all(np.array_equal(one.cells[row].accuracy, other.cells[row].accuracy) for row in one.cells)
    return cells and list(one.findings) == list(other.findings) and list(one.profiles) == list(other.profiles)


def measure(**options: Any) -> Atlas:
    return atlas(encoder(dim=24, heads=3), CORPUS, knockouts=0, threads=1, chunk=8, **options)


def test_a_killed_atlas_continues(tmp_path: Path) -> None:
    program = [sys.executable, "-c", THERE, str(HERE), str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "sentences 16" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGKILL)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["progress.safetensors"]

    with pytest.raises(HeadwiseError, match="was begun with another settings"):
        measure(out=tmp_path, seed=1)
    heard: list[tuple[str, int]] = []
    again = measure(out=tmp_path, step=lambda what, done, of: heard.append((what, done)))
    assert heard[0] == ("sentences", 16)  # what was done is not done again
    assert same(again, measure())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["atlas.html", "atlas.json", "atlas.parquet"]


def test_restart_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "progress.safetensors").write_bytes(b"no such thing")
    with pytest.raises(HeadwiseError, match=r"cannot be continued .*--restart"):
        measure(out=tmp_path)
    heard: list[int] = []
    measure(out=tmp_path, restart=True, step=lambda what, done, of: heard.append(done))
    assert heard[0] == 0


def test_the_size_of_the_state_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    from headwise.analysis.atlas import corpora, counts

    monkeypatch.setattr(corpora, "BLOCKS", 4)
    monkeypatch.setattr(counts, "BLOCKS", 4)
    result = atlas(encoder(dim=24, heads=3), [CORPUS] * 3, knockouts=0, random=False)
    subject = next(one for one in result.findings if one.relation == "subject")
    assert (subject.pairs, subject.documents) == (144, 4)


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is an extra")
def test_ray_gives_the_same_whatever_happens_to_its_workers(tmp_path: Path) -> None:
    """One worker, two workers, and two of which one dies in the middle; in a process of its own, for it is noisy."""
    program = f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
import numpy as np
from test_engines import measure, same
from headwise.analysis.atlas import ray_engine
import ray
os.environ["RAY_DEDUP_LOGS"] = "0"
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
plain = measure()
assert same(plain, measure(engine="ray", workers=1)), "one worker"
assert same(plain, measure(engine="ray", workers=2)), "two workers"

class Mortal(ray_engine.RayWorker):
    def __call__(self, row):
        marker = {str(tmp_path / "died")!r}
        if ray_engine.from_json(row["chunk"]).number == 3 and not os.path.exists(marker):
            open(marker, "w").close()
            os._exit(1)
        return super().__call__(row)

ray_engine.RayWorker = Mortal
assert same(plain, measure(engine="ray", workers=2)), "a worker that died"
assert os.path.exists({str(tmp_path / "died")!r}), "no worker died"
print("all the same")
"""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=900, check=False
    )
    assert "all the same" in done.stdout, done.stderr[-3000:]


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(HeadwiseError, match="engine: got 'spark', wanted local or ray"):
        measure(engine="spark")
