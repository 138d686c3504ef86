"""Suites of both engines, transfer from pools and the single-draw protocol, from a manifest to the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import unmask
from unmask.cli.main import main

NETS = """\
import torch

def net(seed=0, classes=10):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, classes))
        with torch.no_grad():
            model[1].weight.copy_(prototypes() * 2)
            model[1].weight.add_(0.1 * torch.randn(classes, 64))
            model[1].bias.copy_(-model[1].weight.square().sum(1) / 4)
    return model.eval()

def prototypes():
    from sklearn.datasets import load_digits
    found = load_digits()
    images = torch.tensor(found.images / 16, dtype=torch.float32).flatten(1)
    labels = torch.tensor(found.target)
    return torch.stack([images[labels == k].mean(0) for k in range(10)])
"""

HEAD = """\
epsilons = [EPSILON]
max-queries = 60
protocol = "single-draw"
[data]
use = "digits"
samples = SAMPLES
[models.one]
use = "module"
factory = "nets:net"
"""

MIXED = """\
[models.mixed.ensemble]
use = "randomized"
members = ["one", { use = "module", factory = "nets:net", seed = 1 }]
"""

OTHERS = """\
[models.two]
use = "module"
factory = "nets:net"
seed = 1
[models.three]
use = "module"
factory = "nets:net"
seed = 2
"""

STAGES = {
    "plus": ["apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"],
    "rand": ["apgd-ce", "apgd-dlr"],
    "rand+square": ["apgd-ce", "apgd-dlr", "square"],
    "custom": ["apgd-t", "fab-t"],
}


def suite(name: str, version: str, engine: str) -> str:
    attacks = f"attacks = {STAGES['custom']}\n" if version == "custom" else ""
    return f'[attacks."{name}"]\nuse = "autoattack"\nversion = "{version}"\nengine = "{engine}"\n{attacks}'


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("UNMASK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "nets.py").write_text(NETS)

    def called(command: str, rest: str, epsilon: float = 0.1, samples: int = 2) -> tuple[int, str, str]:
        path = tmp_path / "suites.toml"
        head = HEAD.replace("EPSILON", str(epsilon)).replace("SAMPLES", str(samples))
        path.write_text(head + rest)
        more = ["-o", str(tmp_path / "run")] if command == "run" else []
        with pytest.raises(SystemExit) as end:
            main([command, str(path), *more])
        out, err = capfd.readouterr()
        return int(end.value.code or 0), out, err

    return called


@pytest.mark.parametrize("version", list(STAGES))
def test_a_suite_of_each_version_and_engine(run: Run, tmp_path: Path, version: str) -> None:
    engines = ["native"] if version == "rand+square" else ["native", "reference"]
    if len(engines) > 1:
        pytest.importorskip("pyautoattack")
    code, out, err = run("run", MIXED + "".join(suite(engine, version, engine) for engine in engines))
    assert code == 0, err
    results = unmask.load(tmp_path / "run" / "results.nc")
    rows = [f"{engine}/{stage}" for engine in engines for stage in STAGES[version]]
    expected = [row for engine in engines for row in [*(r for r in rows if r.startswith(engine)), engine]]
    assert results.attack.values.tolist() == expected
    assert set(results.message.values.ravel()) == {""}
    assert results.correct.notnull().all()
    # One draw is right or wrong, in the clean column too.
    assert results.attrs["protocol"] == "single-draw"
    assert set(np.unique(results.clean_correct)) <= {0.0, 1.0}
    assert set(np.unique(results.correct)) <= {0.0, 1.0}
    # Accuracy after every stage, never rising; the suite is what the last one left.
    left = results.unmask.robust_accuracy().isel(epsilon=0)
    for engine in engines:
        stages = left.sel(attack=[row for row in rows if row.startswith(engine)])
        assert (stages.diff("attack") <= 0).all()
        np.testing.assert_array_equal(stages.isel(attack=-1), left.sel(attack=engine))
        assert all(f"{row}" in out for row in rows)
        said = json.loads(str(results.settings.sel(attack=engine).item()))
        assert (said["version"], said["engine"]) == (version, engine)
    if len(engines) > 1:
        plain = left.sel(model="one")
        assert abs(plain.sel(attack="native") - plain.sel(attack="reference")) <= 0.5


def test_what_the_reference_has_not_is_refused_at_the_check(run: Run) -> None:
    pytest.importorskip("pyautoattack")
    code, _, err = run("check", suite("a", "rand+square", "reference"))
    assert code == 2
    assert "rand+square" in err
    assert "native" in err


def test_pools_by_logits_and_by_loss(run: Run, tmp_path: Path) -> None:
    attacks = "".join(
        f'[attacks."{rule} {combine}"]\nuse = "transfer"\nsource = "{rule}"\ncombine = "{combine}"\n'
        'attack = { use = "pgd", steps = 10, random-start = false }\n'
        for rule in ("leave-one-out", "all")
        for combine in ("logits", "loss")
    )
    code, out, err = run("run", OTHERS + attacks + '[attacks.pgd]\nuse = "pgd"\nsteps = 10\n', 0.2, 8)
    assert code == 0, err
    results = unmask.load(tmp_path / "run" / "results.nc")
    assert set(results.message.values.ravel()) == {""}
    assert set(results.access.values.tolist()) == {"transfer", "gradients"}
    for name in results.attack.values.tolist():
        assert name in out
    # The target is asked once a sample: for what was found on the pool.
    spent = results.forwards.sel(attack=[a for a in results.attack.values if a != "pgd"])
    assert (spent.where(results.clean_correct == 1, 1) == 1).all()
    # Models of one kind: much of what breaks the others breaks the one left out.
    left, clean = results.unmask.robust_accuracy(), results.unmask.clean_accuracy()
    for rule in ("leave-one-out", "all"):
        assert (left.sel(attack=f"{rule} logits") < clean).all()
    for rule in ("leave-one-out", "all"):
        said = [
            json.loads(str(results.settings.sel(attack=f"{rule} {c}").item())) for c in ("logits", "loss")
        ]
        assert [(s["source"], s["combine"]) for s in said] == [(rule, "logits"), (rule, "loss")]
