"""AutoAttack: its versions, and what a suite does whatever its stages are."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import unmask
from unmask.dimensions import Status
from unmask.errors import UserError
from unmask.verdict.families import attack_rows

QUICK = [
    {"use": "apgd", "steps": 5},
    {"use": "fab-t", "steps": 5, "targets": 2},
    {"use": "square", "queries": 20},
]
ROWS = ["aa/apgd", "aa/fab-t", "aa/square", "aa"]


def quick(**options):
    return unmask.attack("autoattack", version="custom", attacks=QUICK, **options)


def net(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4)
        ).eval()


def problem(n=23):
    images = torch.rand(n, 1, 6, 6, generator=torch.Generator().manual_seed(5))
    model = net()
    with torch.no_grad():
        labels = model(images).argmax(1)
    labels[::7] = (labels[::7] + 1) % 4
    return model, images, labels


def run(attacks, epsilons=(0.15, 0.2), models=None, **options):
    model, images, labels = problem()
    return unmask.evaluate(models or {"m": model}, images, labels, attacks, list(epsilons), **options)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("standard", ["apgd-ce", "apgd-t", "fab-t", "square"]),
        ("plus", ["apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"]),
        ("rand", ["apgd-ce", "apgd-dlr"]),
        ("rand+square", ["apgd-ce", "apgd-dlr", "square"]),
    ],
)
def test_the_published_versions(version, expected):
    stages = unmask.attack("autoattack", version=version).attack.stages("linf")
    assert list(stages) == expected
    settings = {name: dict(stage.options) for name, stage in stages.items()}
    eot = 20 if version.startswith("rand") else 1
    restarts = 5 if version == "plus" else 1
    assert settings["apgd-ce"]["steps"] == 100
    assert settings["apgd-ce"]["eot"] == eot
    assert settings["apgd-ce"]["restarts"] == restarts
    if "apgd-t" in settings:
        assert (settings["apgd-t"]["loss"], settings["apgd-t"]["targets"]) == ("dlr", 9)
    if "fab" in settings:
        assert settings["fab"]["restarts"] == 5
    if "square" in settings:
        assert settings["square"]["queries"] == 5000
        assert settings["square"]["eot"] == eot
    assert all(stage.entry.search == "within" for stage in stages.values())


def test_the_standard_version_in_l1():
    # Croce & Hein 2021, "Mind the box", section 5: five restarts, five targets, growing precision.
    stages = unmask.attack("autoattack").attack.stages("l1")
    assert stages["apgd-ce"].options["restarts"] == 5
    assert stages["apgd-t"].options["targets"] == 5
    assert stages["apgd-ce"].options["multi_epsilon"]
    assert stages["apgd-t"].options["multi_epsilon"]


def test_names_of_stages_and_attacks_of_any_kind_make_a_suite():
    made = unmask.attack(
        "autoattack",
        version="custom",
        attacks=["apgd-dlr", {"use": "pgd", "steps": 3}, "fgsm", unmask.attack("pgd", steps=4)],
    )
    stages = made.attack.stages("linf")
    assert list(stages) == ["apgd-dlr", "pgd", "fgsm", "pgd-2"]
    assert [stage.use for stage in stages.values()] == ["apgd", "pgd", "fgsm", "pgd"]
    again = unmask.attack(made.use, **made.options).attack.stages("linf")
    assert [s.options for s in again.values()] == [s.options for s in stages.values()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"version": "standrad"}, "standard"),
        ({"version": "custom"}, "at least one attack"),
        ({"attacks": ["apgd-ce"]}, "version 'custom'"),
        ({"version": "custom", "attacks": ["apgd-ec"]}, "apgd-ec"),
        ({"version": "custom", "attacks": [{"use": "pdg"}]}, "pgd"),
        ({"engine": "jax"}, "engine"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(UserError, match=said):
        unmask.attack("autoattack", **options)


def test_a_suite_in_a_suite_is_refused():
    with pytest.raises(UserError, match="a suite is made of attacks"):
        run({"aa": unmask.attack("autoattack", version="custom", attacks=["autoattack"])})


def test_a_name_that_a_stage_could_have_is_refused():
    with pytest.raises(UserError, match="stands between a suite and its stage"):
        run({"aa": quick(), "aa/square": "square"})


def test_a_stage_that_is_not_defined_for_the_norm_is_refused():
    def only_linf(target, images, labels, budget, random):
        return images

    only_linf.norms = ("linf",)
    with pytest.raises(UserError, match="not defined for norm 'l2'"):
        run({"aa": unmask.attack("autoattack", version="custom", attacks=["fgsm", only_linf])}, norm="l2")


@pytest.fixture(scope="module")
def suite():
    return run({"aa": quick(), "pgd": {"use": "pgd", "steps": 2}}, (0.15, 0.2), keep_examples=True)


def test_rows_stages_then_suite(suite):
    assert suite.attack.values.tolist() == [*ROWS, "pgd"]
    assert suite.use.values.tolist() == ["apgd", "fab-t", "square", "autoattack", "pgd"]
    assert suite.search.values.tolist() == ["within", "nearest", "within", "within", "within"]
    assert json.loads(str(suite.settings.sel(attack="aa").item()))["attacks"][0]["use"] == "apgd"
    assert set(suite.message.values.ravel()) == {""}


def test_each_stage_holds_the_state_after_it(suite):
    staged = suite.correct.sel(attack=ROWS[:3])
    assert (staged.diff("attack") <= 0).all()
    assert (suite.correct.diff("epsilon") <= 0).all()
    for variable in ("correct", "margin", "distance", "status", "adversarial", "prediction"):
        last = suite[variable].sel(attack="aa/square", drop=True)
        np.testing.assert_array_equal(last, suite[variable].sel(attack="aa", drop=True))
    assert 0 < float(suite.correct.sel(attack="aa").isel(epsilon=0).mean()) < 1


def test_a_stage_spends_nothing_on_what_fell_before_it(suite):
    fell = suite.correct.sel(attack="aa/apgd") == 0
    for later in ("aa/square", "aa/fab-t"):
        spent = suite.forwards.sel(attack=later)
        if later == "aa/fab-t":
            # One search for all radii: on what stood at the smallest.
            fell = (suite.correct.sel(attack="aa/apgd") == 0).isel(epsilon=0) & (spent >= 0)
        assert (spent.where(fell, 0) == 0).all()
        assert (spent > 0).any()


def test_the_suite_pays_for_all_its_stages(suite):
    for variable in ("forwards", "backwards"):
        np.testing.assert_array_equal(
            suite[variable].sel(attack=ROWS[:3]).sum("attack"), suite[variable].sel(attack="aa")
        )
    np.testing.assert_allclose(
        suite.seconds.sel(attack=ROWS[:3]).sum("attack"), suite.seconds.sel(attack="aa")
    )


def test_a_stage_keeps_the_example_of_the_stage_that_broke_the_sample(suite):
    _, images, _ = problem()
    # At larger radii the nearest search may have found a closer one.
    suite = suite.isel(epsilon=slice(0, 1))
    apgd, aa = suite.sel(attack="aa/apgd"), suite.sel(attack="aa")
    fell = (apgd.correct == 0) & (suite.clean_correct == 1)
    assert fell.any()
    np.testing.assert_array_equal(aa.adversarial.where(fell, 0), apgd.adversarial.where(fell, 0))
    moved = np.abs(aa.adversarial.values[0].astype(float) - images.numpy().astype(float)).max((-1, -2, -3))
    assert (moved <= suite.epsilon.values[:, None]).all()


def test_the_worst_case_names_the_stage(suite):
    named = set(np.unique(suite.unmask.worst_attack().values.astype(str)))
    assert named <= {"", *ROWS[:3]}
    np.testing.assert_allclose(
        suite.unmask.worst_case(), suite.unmask.robust_accuracy().sel(attack="aa", drop=True)
    )


def test_the_verdict_takes_each_stage_for_what_it_is():
    rows = run({"aa": quick(), "plus": unmask.attack("autoattack", version="custom", attacks=QUICK[::-1])})
    families = {row.name: row.family for row in attack_rows(rows)}
    assert families == {
        "aa/apgd": "white-box",
        "aa/fab-t": "white-box",
        "aa/square": "black-box",
        "aa": "other",
        "plus/square": "black-box",
        "plus/fab-t": "other",
        "plus/apgd": "other",
        "plus": "other",
    }


def test_the_outcome_does_not_depend_on_the_batch(suite):
    other = run(
        {"aa": quick(), "pgd": {"use": "pgd", "steps": 2}},
        (0.15, 0.2),
        keep_examples=True,
        batch_size=5,
    )
    for variable in ("correct", "margin", "distance", "forwards", "backwards", "status", "adversarial"):
        np.testing.assert_array_equal(other[variable], suite[variable], err_msg=variable)


class Interruptible(nn.Module):
    """Counts its calls, and is interrupted at one of them."""

    calls, limit = 0, 0

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, images):
        type(self).calls += 1
        if self.calls == self.limit:
            raise KeyboardInterrupt
        return self.inner(images)


def test_an_interrupted_suite_goes_on_where_it_stopped(tmp_path):
    def again(limit, **options):
        Interruptible.calls, Interruptible.limit = 0, limit
        found = run({"aa": quick()}, models={"m": Interruptible(net()).eval()}, **options)
        return found, Interruptible.calls

    whole, calls = again(0)
    with pytest.raises(KeyboardInterrupt):
        again(calls - 5, out=tmp_path / "run")
    resumed, fewer = again(0, out=tmp_path / "run")
    # Inspection, and the stage that was interrupted at the larger radius.
    assert fewer < calls / 2
    for variable in ("correct", "margin", "forwards", "status"):
        np.testing.assert_array_equal(resumed[variable], whole[variable])


def breaks(target, images, labels, budget, random):
    """Fails at the larger radius."""
    if budget.epsilon > 0.18:
        raise RuntimeError("boom")
    return images


def test_a_failed_stage_fails_the_suite_from_there_and_keeps_what_came_before():
    found = run({"aa": unmask.attack("autoattack", version="custom", attacks=["fgsm", breaks, "fgsm"])})
    names = found.attack.values.tolist()
    assert names == ["aa/fgsm", "aa/breaks", "aa/fgsm-2", "aa"]
    status = found.status.isel(model=0, epsilon=1)
    assert (status.sel(attack="aa/breaks") == Status.FAILED).all()
    assert (status.sel(attack="aa/fgsm-2") == Status.NOT_RUN).all()
    assert (status.sel(attack="aa") == Status.FAILED).all()
    assert "boom" in str(found.message.sel(attack="aa").isel(model=0, epsilon=1).item())
    assert np.isnan(found.correct.sel(attack="aa").isel(epsilon=1)).all()
    assert found.correct.sel(attack="aa/fgsm").notnull().all()
    assert found.correct.isel(epsilon=0).notnull().all()


def test_a_stage_that_does_not_apply_to_a_model_is_passed_over():
    plain = net()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        guarded = unmask.Defended(nn.Conv2d(1, 1, 3, padding=1), plain).eval()
    stages = ["fgsm", {"use": "pgd", "steps": 3, "gradient": "bypass"}, "fgsm"]
    found = run(
        {"aa": unmask.attack("autoattack", version="custom", attacks=stages)},
        models={"plain": plain, "guarded": guarded},
    )
    assert (found.status.sel(model="plain", attack="aa/pgd") == Status.NOT_RUN).all()
    assert found.correct.sel(attack=["aa", "aa/fgsm", "aa/fgsm-2"]).notnull().all()
    assert found.correct.sel(model="guarded").notnull().all()


def test_limits_hold_for_each_stage():
    found = run({"aa": quick(max_queries=7)})
    assert found.forwards.sel(attack=ROWS[:3]).max() == 7
    assert found.forwards.sel(attack="aa").max() == 21


def test_the_suite_is_exact_on_linear_models(known):
    for classes in (3, 10):
        model, images, labels = known.linear_problem(classes=classes)
        attacks = [{"use": "apgd", "steps": 10}, {"use": "fab-t", "steps": 10}]
        suite = unmask.attack("autoattack", version="custom", attacks=attacks)
        found = unmask.evaluate(model, images, labels, {"aa": suite}, [0.05, 0.1])
        for epsilon in (0.05, 0.1):
            truth = known.robust_linf(model, images, labels, epsilon).numpy()
            truth[:3] = False
            here = found.correct.sel(attack="aa", epsilon=epsilon).values.ravel()
            np.testing.assert_array_equal(here, truth)


def test_a_coin_keeps_its_probability(known):
    images = torch.rand(6, 1, 2, 2)
    found = unmask.evaluate(
        known.Coin(0.9).eval(),
        images,
        torch.zeros(6, dtype=torch.int64),
        {
            "aa": unmask.attack(
                "autoattack", version="custom", attacks=[{"use": "apgd", "steps": 3, "eot": 2}, *QUICK[2:]]
            )
        },
        [0.1],
        draws=64,
    )
    assert (found.correct == found.clean_correct).all()


def test_a_suite_can_be_transferred(known):
    model, images, labels = known.linear_problem()
    found = unmask.evaluate(
        {"a": model},
        images,
        labels,
        {"t": unmask.attack("transfer", source="a", attack=quick())},
        [0.1],
    )
    truth = known.robust_linf(model, images, labels, 0.1).numpy()
    assert set(found.message.values.ravel()) == {""}
    assert float(found.correct.sum()) <= truth.sum() + 3


def test_the_reference_says_how_to_install_it(monkeypatch):
    import importlib

    real = importlib.import_module

    def absent(name, *rest):
        if name in ("pyautoattack", "autoattack"):
            raise ModuleNotFoundError(name=name)
        return real(name, *rest)

    monkeypatch.setattr("unmask_plugins.attacks.reference.importlib.import_module", absent)
    with pytest.raises(UserError, match="pip install pyautoattack"):
        unmask.attack("autoattack", engine="reference")
