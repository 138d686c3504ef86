"""What other tools wrote becomes a result file as far as they tell."""

from __future__ import annotations

import json
import logging
import math

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import unmask
from unmask.cli.main import app, main
from unmask.errors import UserError
from unmask.results.importing import Told, import_results

CARD = {
    "link": "https://arxiv.org/abs/1905.13736",
    "name": "A paper",
    "authors": "A and B",
    "dataset": "cifar10",
    "architecture": "WideResNet-28-10",
    "eps": "8/255",
    "clean_acc": "89.69",
    "reported": "62.5",
    "autoattack_acc": "59.53",
    "unreliable": False,
}
STATE = {
    "_attacks_to_run": "{'square', 'apgd-ce'}",
    "path": "state.json",
    "_run_attacks": ["apgd-ce", "square"],
    "_robust_flags": [True] * 12 + [False] * 8,
    "_last_saved": "2026-01-01 00:00:00",
    "_SAVE_TIMEOUT": 60,
    "_clean_accuracy": 0.8,
}


@pytest.fixture
def file(tmp_path):
    def write(content, name="Linf/Carmon2019Unlabeled.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
        return path

    return write


def test_a_card_becomes_as_many_anonymous_samples_as_it_counts(file, tmp_path):
    path = file(CARD)
    main_output = CliRunner().invoke(app, ["import", str(path), "-o", str(tmp_path / "r.nc")])
    assert main_output.exit_code == 0, main_output.output
    assert "10000 samples of a card of RobustBench" in main_output.output
    results = unmask.load(tmp_path / "r.nc")
    assert results.unmask.clean_accuracy().item() == pytest.approx(0.8969)
    assert results.unmask.robust_accuracy().item() == pytest.approx(0.5953)
    assert results.unmask.conditional_robust_accuracy().item() == pytest.approx(5953 / 8969)
    assert results.unmask.worst_case().item() == pytest.approx(0.5953)
    assert results.model.values.tolist() == ["Carmon2019Unlabeled"]
    assert results.epsilon.values.tolist() == [8 / 255]
    assert results.attrs["norm"] == "linf"
    assert (results.sample < 0).all()
    assert np.isnan(results.forwards.values).all()
    assert np.isnan(results.distance.values).all()
    assert results.unmask.verdict()["Carmon2019Unlabeled"].label == "inconclusive"


def test_the_samples_of_two_cards_are_never_the_same(file):
    first = import_results(file(CARD), Told())
    second = import_results(file({**CARD, "autoattack_acc": "59.54"}), Told())
    assert not set(first.sample.values.tolist()) & set(second.sample.values.tolist())


@pytest.mark.parametrize("kind", ["text", "markdown", "html", "latex", "json"])
@pytest.mark.parametrize("content", [CARD, STATE], ids=["card", "state"])
def test_every_report_works_on_it(file, tmp_path, kind, content):
    output, report = tmp_path / "r.nc", tmp_path / "report"
    runner = CliRunner()
    options = ["--norm", "linf", "--epsilon", "8/255"]
    assert runner.invoke(app, ["import", str(file(content)), "-o", str(output), *options]).exit_code == 0
    made = runner.invoke(app, ["report", str(output), "--format", kind, "-o", str(report)])
    assert made.exit_code == 0, made.output
    said = report.read_text()
    assert "Carmon2019Unlabeled" in said
    if kind == "text":
        assert "judged by that tool, not here" in " ".join(said.split())
        assert "seed unknown, precision unknown" in " ".join(said.split())


def test_a_state_tells_which_samples_stand_and_not_which_were_wrong(file):
    results = import_results(file(STATE, "mine.json"), Told(norm="l2", epsilon="0.5", model="net"))
    assert results.correct.values.ravel().tolist() == [1.0] * 12 + [0.0] * 8
    clean = results.clean_correct.values.ravel()
    assert (clean[:12] == 1).all()
    assert np.isnan(clean[12:]).all()
    assert math.isnan(results.unmask.clean_accuracy().item())
    assert results.unmask.robust_accuracy().item() == pytest.approx(0.6)
    assert "Clean accuracy was 16 of 20 (80.00%)" in results.attrs["warnings"]
    assert results.attrs["norm"] == "l2"
    assert results.sample.values.tolist() == list(range(20))


@pytest.mark.parametrize(("clean", "expected"), [(1.0, 1.0), (0.6, 0.0)])
def test_where_the_counts_leave_no_choice_the_clean_errors_are_known(file, clean, expected):
    content = {**STATE, "_clean_accuracy": clean}
    results = import_results(file(content), Told(norm="linf", epsilon="8/255"))
    assert (results.clean_correct.values.ravel()[12:] == expected).all()
    assert results.unmask.clean_accuracy().item() == clean


def test_an_unfinished_evaluation_is_an_upper_bound(file):
    content = {**STATE, "_run_attacks": ["apgd-ce"]}
    results = import_results(file(content), Told(norm="linf", epsilon="8/255"))
    assert "square had not been run, so robust accuracy is an upper bound" in results.attrs["warnings"]


def test_what_autoattack_itself_writes_is_read(tmp_path):
    reference = pytest.importorskip("pyautoattack")
    logging.getLogger("auto-attack").setLevel(logging.ERROR)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4)).eval()
        images = torch.rand(30, 1, 8, 8)
        labels = net(images).argmax(1)
        labels[:3] = (labels[:3] + 1) % 4
        path = tmp_path / "state.json"
        adversary = reference.AutoAttack(net, eps=0.02, version="custom", attacks=["apgd-ce"], seed=0)
        adversary.apgd.n_iter = 5
        _, classes = adversary.run_standard_evaluation(images, labels, state_path=path)
    results = import_results(path, Told(norm="linf", epsilon="0.02"))
    assert results.correct.values.ravel().tolist() == (classes == labels).double().tolist()
    assert json.loads(results.settings.item()) == {"attacks": ["apgd-ce"], "run": ["apgd-ce"]}


@pytest.mark.parametrize(
    ("content", "told", "said"),
    [
        (STATE, {}, "does not tell the norm. Tell it: --norm"),
        (STATE, {"norm": "linf"}, "does not tell the radius. Tell it: --epsilon"),
        (STATE, {"norm": "max", "epsilon": "1"}, "must be linf, l2 or l1"),
        ({**STATE, "_robust_flags": None}, {"norm": "linf", "epsilon": "1"}, "holds no sample yet"),
        ({**STATE, "_robust_flags": [0.3]}, {"norm": "linf", "epsilon": "1"}, "list of true and false"),
        (
            {**STATE, "_clean_accuracy": 0.1},
            {"norm": "linf", "epsilon": "1"},
            "says that 2 of 20 samples were right",
        ),
        (
            {**STATE, "_clean_accuracy": 0.83},
            {"norm": "linf", "epsilon": "1"},
            "of 20 samples. The file is damaged",
        ),
        ({**CARD, "dataset": "own"}, {}, "does not say how many images of 'own' there were"),
        ({**CARD, "clean_acc": "89.695"}, {"samples": 100}, "is no whole number of 100 samples"),
        ({**CARD, "clean_acc": "high"}, {}, "must be a percentage"),
        ({**CARD, "autoattack_acc": "95"}, {}, "is above 'clean_acc'"),
        ({"clean_acc": "95", "corruptions_acc": "80"}, {}, "it is about common corruptions"),
        ({**CARD, "eps": "8/0"}, {}, "Carmon2019Unlabeled.json: 'eps': '8/0' divides by zero"),
        ({**CARD, "eps": "-1"}, {}, "Carmon2019Unlabeled.json: 'eps': must not be negative"),
        (CARD, {"epsilon": "-1"}, "^--epsilon: must not be negative"),
        ({"accuracy": 1}, {}, "is neither a state file of AutoAttack"),
        ([], {}, "is neither a state file of AutoAttack"),
    ],
)
def test_what_cannot_be_entered_is_refused_in_words(file, content, told, said):
    with pytest.raises(UserError, match=said):
        import_results(file(content), Told(**told))


def test_no_json_is_exit_status_2(tmp_path, capsys):
    (tmp_path / "weights.pt").write_bytes(b"\x80\x02")
    with pytest.raises(SystemExit) as left:
        main(["import", str(tmp_path / "weights.pt"), "-o", str(tmp_path / "r.nc")])
    assert left.value.code == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", [json.dumps(STATE)[:-40], "", "[" * 100_000], ids=["cut", "empty", "deep"]
)
def test_a_file_cut_short_is_refused_in_words(tmp_path, content):
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(UserError, match="cannot be read"):
        import_results(tmp_path / "state.json", Told(norm="linf", epsilon="1"))


def test_nothing_that_is_read_is_written_over(file, tmp_path, capsys):
    card, result = file(CARD), tmp_path / "results.nc"
    assert CliRunner().invoke(app, ["import", str(card), "-o", str(result)]).exit_code == 0
    for source, command in (
        (card, ["import", str(card), "-o", str(card)]),
        (result, ["report", str(tmp_path), "--format", "html", "-o", str(result)]),
    ):
        before = source.read_bytes()
        with pytest.raises(SystemExit) as left:
            main(command)
        assert left.value.code == 2
        assert "is the file that is read" in capsys.readouterr().err
        assert source.read_bytes() == before
