from __future__ import annotations

import tomllib
from pathlib import Path

import netCDF4
import pytest

from unmask.errors import UserError
from unmask.manifest.reading import parse_manifest, read_manifest
from unmask.manifest.spec import AttackSpec, CompositeSpec, DataSpec, EnsembleSpec, FrontEndSpec, NetworkSpec

SAMPLE = """\
name = "quickstart"
seed = 0
norm = "linf"
epsilons = ["0", "8/255", "16/255"]
metrics = ["calibration"]

[data]
use = "digits"
samples = 200

[models.backbone]
use = "small-cnn"

[models."backbone+front"]
backbone = "backbone"
front-end = { use = "dncnn" }

[models."backbone+front 3x"]
ensemble = { use = "randomized", members = ["backbone+front"], copies = 3 }

[attacks.pgd]
use = "pgd"
steps = 50
restarts = 5

[attacks.zero-order-pgd]
use = "pgd"
steps = 10
gradient = { use = "finite-difference", square = 1, group = 5 }

[attacks.bpda-pgd]
use = "pgd"
gradient = { use = "bypass" }
"""

SMALLEST = """\
epsilons = [0.1]
data = "digits"
models.m = { use = "small-cnn" }
attacks.square = "square"
"""


def test_the_sample_means_what_it_says() -> None:
    manifest = parse_manifest(SAMPLE, folder="/somewhere", file="quickstart.toml")
    assert manifest.name == "quickstart"
    assert manifest.epsilons == (0.0, 8 / 255, 16 / 255)
    assert manifest.metrics == ("calibration",)
    assert manifest.data == DataSpec("digits", 200)
    assert manifest.models == {
        "backbone": NetworkSpec("small-cnn"),
        "backbone+front": CompositeSpec("backbone", FrontEndSpec("dncnn")),
        "backbone+front 3x": EnsembleSpec("randomized", ("backbone+front",), copies=3),
    }
    assert list(manifest.attacks) == ["pgd", "zero-order-pgd", "bpda-pgd"]
    assert manifest.attacks["pgd"] == AttackSpec("pgd", {"steps": 50, "restarts": 5})
    assert manifest.text == SAMPLE
    assert manifest.folder == Path("/somewhere")


def test_what_is_left_out_has_its_default() -> None:
    manifest = parse_manifest(SMALLEST, file="runs/tiny.toml")
    assert manifest.name == "tiny"
    assert (manifest.seed, manifest.norm, manifest.precision) == (0, "linf", "float32")
    assert manifest.data == DataSpec("digits")
    assert manifest.attacks == {"square": AttackSpec("square")}
    assert manifest.bounds is manifest.batch_size is manifest.device is manifest.max_queries is None
    assert manifest.timeout is None
    assert manifest.keep_examples is False


def test_everything_at_the_top() -> None:
    text = (
        'seed = 7\nnorm = "l2"\nbounds = [-1, 1]\nbatch-size = 32\nprecision = "float32"\ndevice = "cuda:1"\n'
        "keep-examples = true\nmax-queries = 100\ntimeout = 2.5\n" + SMALLEST
    )
    manifest = parse_manifest(text)
    assert (manifest.seed, manifest.norm, manifest.bounds) == (7, "l2", (-1.0, 1.0))
    assert (manifest.batch_size, manifest.device, manifest.keep_examples) == (32, "cuda:1", True)
    assert (manifest.max_queries, manifest.timeout) == (100, 2.5)


def test_models_of_their_own_may_stand_where_names_do() -> None:
    digest = "0" * 64
    text = f"""
epsilons = [0.1]
data = "digits"
[attacks]
pgd = "pgd"
[models.nested]
weights = "whole.pt"
[models.nested.ensemble]
use = "randomized"
probabilities = [0.25, 0.75]
[[models.nested.ensemble.members]]
use = "small-cnn"
weights = "a.pt"
sha256 = "{digest}"
[[models.nested.ensemble.members]]
backbone = {{ use = "small-cnn", recipe = {{ use = "standard", epochs = 2, data = "digits" }} }}
front-end = {{ use = "dncnn", depth = 5 }}
recipe = "front-end"
"""
    model = parse_manifest(text).models["nested"]
    assert isinstance(model, EnsembleSpec)
    assert model.options == {"probabilities": [0.25, 0.75]}
    assert model.weights is not None and model.weights.path == "whole.pt"
    first, second = model.members
    assert isinstance(first, NetworkSpec) and first.weights is not None
    assert first.weights.sha256 == digest
    assert isinstance(second, CompositeSpec) and isinstance(second.backbone, NetworkSpec)
    assert second.recipe is not None and second.recipe.use == "front-end"
    recipe = second.backbone.recipe
    assert recipe is not None and recipe.data == DataSpec("digits") and recipe.options == {"epochs": 2}


def test_a_file_gives_its_folder_and_its_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALLEST.replace("\n", "\r\n").encode())
    manifest = read_manifest(path)
    assert (manifest.name, manifest.folder, manifest.file) == ("mine", tmp_path, str(path))


@pytest.mark.parametrize("recorded", [True, False])
def test_a_result_file_is_its_manifest(tmp_path: Path, recorded: bool) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    path = tmp_path / "results.nc"
    with netCDF4.Dataset(path, "w") as results:
        results.setncattr("manifest", SAMPLE)
        if recorded:
            results.setncattr("manifest_folder", str(origin))
    manifest = read_manifest(path)
    assert manifest.text == SAMPLE
    assert manifest.folder == (origin if recorded else tmp_path)


def test_a_result_without_a_manifest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.nc"
    with netCDF4.Dataset(path, "w") as results:
        results.setncattr("manifest", "")
    with pytest.raises(UserError, match="holds no manifest"):
        read_manifest(path)


def test_unreadable_files_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "quickstart.toml").write_text(SMALLEST)
    with pytest.raises(
        UserError, match=r"quikstart.toml: there is no such file. Did you mean 'quickstart.toml'"
    ):
        read_manifest(tmp_path / "quikstart.toml")
    with pytest.raises(UserError, match="is a folder"):
        read_manifest(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'name = "x"\n# caf\xe9\n')
    with pytest.raises(UserError, match=r"not UTF-8 text \(line 2\)"):
        read_manifest(tmp_path / "latin.toml")
    (tmp_path / "broken.nc").write_bytes(b"\x89HDF\r\n\x1a\nnothing")
    with pytest.raises(UserError, match="not a whole result file"):
        read_manifest(tmp_path / "broken.nc")
    with pytest.raises(UserError, match="no folder"):
        read_manifest(tmp_path / "nowhere" / "m.toml")


def test_a_syntax_error_names_file_and_line() -> None:
    with pytest.raises(UserError, match=r"m\.toml: is not valid TOML: .*line 2"):
        parse_manifest('name = "x"\nseed = = 3\n', file="m.toml")


def test_the_smallest_manifest_is_small() -> None:
    assert len(tomllib.loads(SMALLEST)) == 4
