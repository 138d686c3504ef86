"""Models of RobustBench, Hugging Face, ART and torch.hub, without any network."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest
import torch

import unmask
from unmask.errors import UserError
from unmask.manifest.location import working_from


def needs(module):
    return pytest.mark.skipif(find_spec(module) is None, reason=f"{module} is not installed")


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """A tiny vision transformer as `save_pretrained` leaves it, with a processor."""
    from transformers import ViTConfig, ViTForImageClassification

    folder = tmp_path_factory.mktemp("hub") / "tiny-vit"
    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=16,
        patch_size=8,
        num_channels=3,
        num_labels=5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = ViTForImageClassification(config).eval()
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "image_processor_type": "ViTImageProcessor",
                "do_normalize": True,
                "do_resize": True,
                "image_mean": [0.5, 0.4, 0.3],
                "image_std": [0.2, 0.3, 0.4],
                "resample": 2,
                "size": {"height": 16, "width": 16},
            }
        )
    )
    return folder, model


@needs("transformers")
@pytest.mark.filterwarnings("ignore")
class TestHuggingFace:
    def test_it_says_what_transformers_says_of_the_same_image(self, vit):
        from transformers import AutoImageProcessor

        folder, network = vit
        model = unmask.model("hugging-face", name=str(folder))
        pixels = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), dtype=np.uint8)
        processed = AutoImageProcessor.from_pretrained(folder)(list(pixels), return_tensors="pt")
        with torch.no_grad():
            theirs = network(processed["pixel_values"]).logits
            ours = model(torch.tensor(pixels).permute(0, 3, 1, 2) / 255)
        torch.testing.assert_close(ours, theirs)
        assert not model.training
        assert set(model.state_dict()) == set(network.state_dict())

    def test_other_sizes_are_resized_and_values_can_be_replaced(self, vit):
        model = unmask.model("hugging-face", name=str(vit[0]), mean=[0.0], std=[1.0])
        assert model(torch.rand(2, 3, 24, 24)).shape == (2, 5)
        assert model.unmask_preprocessing[1].std.flatten().tolist() == [1.0, 1.0, 1.0]

    def test_a_model_without_processor_still_knows_its_size(self, vit, tmp_path):
        vit[1].save_pretrained(tmp_path)
        model = unmask.model("hugging-face", name=str(tmp_path))
        assert (model.unmask_preprocessing[0].height, model.unmask_preprocessing[0].width) == (16, 16)
        images = torch.rand(1, 3, 16, 16)
        torch.testing.assert_close(model(images), vit[1](images).logits)

    def test_gradients_pass_and_it_can_be_evaluated_from_a_manifest_folder(self, vit):
        with working_from(vit[0].parent):
            model = unmask.model("hugging-face", name="tiny-vit")
        images = torch.rand(3, 3, 16, 16)
        labels = model(images).argmax(1).detach()
        results = unmask.evaluate({"vit": model}, images, labels, {"fgsm": "fgsm"}, ["8/255"])
        assert (results.backwards > 0).all()
        assert (results.message == "").all()

    def test_what_is_not_there_is_said(self, monkeypatch):
        from transformers import AutoModelForImageClassification

        def refused(*_, **__):
            raise OSError("no route to host")

        monkeypatch.setattr(AutoModelForImageClassification, "from_pretrained", refused)
        with pytest.raises(UserError, match="there is no folder"):
            unmask.model("hugging-face", name="./tiny-vot")
        with pytest.raises(UserError, match="neither a folder beside the manifest nor in the local cache"):
            unmask.model("hugging-face", name="no-such-owner/no-such-model")


@needs("art")
@pytest.mark.filterwarnings("ignore")
class TestART:
    SOURCE = """
import numpy as np
import torch
from art.defences.postprocessor import ReverseSigmoid
from art.defences.preprocessor import JpegCompression
from art.defences.preprocessor.preprocessor import PreprocessorPyTorch
from art.estimators.classification import PyTorchClassifier

STANDARDISATION = np.array([.1, .2, .3]), np.array([.5, .6, .7])

class Darker(PreprocessorPyTorch):
    def __init__(self): super().__init__("cpu", is_fitted=True, apply_fit=False, apply_predict=True)
    def forward(self, x, y=None): return x ** 2, y

def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 4))

def classifier(**options):
    return PyTorchClassifier(
        network(), torch.nn.CrossEntropyLoss(), (3, 4, 4), 4, device_type="cpu",
        **{"clip_values": (0.0, 1.0), "preprocessing": STANDARDISATION, **options}
    )

def wide(): return classifier(clip_values=(0.0, 255.0))
def darker(): return classifier(preprocessing_defences=Darker())
def jpeg(): return classifier(preprocessing_defences=JpegCompression((0.0, 1.0), channels_first=True))
def reversed_sigmoid(): return classifier(postprocessing_defences=ReverseSigmoid())
"""

    @pytest.fixture
    def built(self, tmp_path):
        (tmp_path / "art_nets.py").write_text(self.SOURCE)

        def build(name):
            with working_from(tmp_path):
                return unmask.model("art", factory=f"art_nets:{name}")

        def theirs(name):
            namespace = {}
            exec(self.SOURCE, namespace)
            return namespace[name]()

        return build, theirs

    @pytest.mark.parametrize(("name", "scale"), [("classifier", 1), ("wide", 255), ("darker", 1)])
    def test_it_says_what_art_predicts(self, built, name, scale):
        build, theirs = built
        images = torch.rand(5, 3, 4, 4)
        predicted = theirs(name).predict((images * scale).numpy())
        np.testing.assert_allclose(build(name)(images).detach().numpy(), predicted, rtol=1e-4, atol=1e-5)

    def test_it_can_be_attacked(self, built):
        model = built[0]("classifier")
        images = torch.rand(4, 3, 4, 4)
        labels = model(images).argmax(1).detach()
        results = unmask.evaluate({"m": model}, images, labels, {"a": "pgd"}, [0.5])
        assert (results.correct == 0).any()

    @pytest.mark.parametrize("name", ["jpeg", "reversed_sigmoid"])
    def test_what_art_does_in_numpy_is_refused(self, built, name):
        with pytest.raises(UserError, match="computes in NumPy"):
            built[0](name)

    def test_a_plain_module_is_sent_to_module(self, built):
        with pytest.raises(UserError, match="use 'module'"):
            built[0]("network")


@pytest.fixture
def zoo(monkeypatch):
    """RobustBench with one more, tiny model."""
    from unmask_plugins.models.robustbench_zoo import imported_robustbench

    imported_robustbench("the test")
    from robustbench.model_zoo import model_dicts
    from robustbench.model_zoo.enums import BenchmarkDataset, ThreatModel

    def build():
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))

    models = model_dicts[BenchmarkDataset.cifar_10][ThreatModel.Linf]
    monkeypatch.setitem(models, "Nobody2026Tiny", {"model": build, "gdrive_id": "none"})
    return build


def without_robustbench():
    if find_spec("robustbench") is None:
        return True
    from unmask_plugins.models.robustbench_zoo import imported_robustbench

    try:
        imported_robustbench("the test")
    except UserError:
        return True
    return False


robustbench = pytest.mark.skipif(without_robustbench(), reason="robustbench is not installed")


@robustbench
@pytest.mark.filterwarnings("ignore")
class TestRobustBench:
    def test_a_model_of_the_zoo_with_weights_that_lie_there(self, zoo, tmp_path):
        network = zoo()
        folder = tmp_path / "models" / "cifar10" / "Linf"
        folder.mkdir(parents=True)
        torch.save({f"module.{k}": v for k, v in network.state_dict().items()}, folder / "Nobody2026Tiny.pt")
        with working_from(tmp_path):
            model = unmask.model("robustbench", name="Nobody2026Tiny", folder="models")
        images = torch.rand(2, 3, 32, 32)
        torch.testing.assert_close(model(images), network(images))
        assert not model.training

    def test_misspelt_names_meet_the_nearest(self):
        with pytest.raises(UserError, match="Did you mean 'Carmon2019Unlabeled'"):
            unmask.model("robustbench", name="Carmon2019Unlabelled")
        with pytest.raises(UserError, match="It is there for threat 'Linf'"):
            unmask.model("robustbench", name="Carmon2019Unlabeled", threat="L2")

    def test_weights_that_cannot_be_fetched_are_said(self, zoo, tmp_path, monkeypatch):
        from robustbench import utils

        def refused(*_):
            raise OSError("no route to host")

        monkeypatch.setattr(utils, "download_gdrive", refused)
        with pytest.raises(UserError, match="could not be fetched"):
            unmask.model("robustbench", name="Nobody2026Tiny", folder=str(tmp_path))

    def test_its_clean_images(self, monkeypatch, tmp_path):
        from robustbench import data

        pixels = np.random.default_rng(0).integers(0, 256, (250, 3, 32, 32), dtype=np.uint8)

        class Local(torch.utils.data.Dataset):
            def __init__(self, root, train, transform, download):
                assert root == str(tmp_path)
                assert not train

            def __len__(self):
                return len(pixels)

            def __getitem__(self, row):
                return torch.tensor(pixels[row]) / 255, row % 10

        monkeypatch.setattr(data.datasets, "CIFAR10", Local)
        found = unmask.components.data("robustbench", examples=120, path=str(tmp_path))
        assert torch.equal(found.images, torch.tensor(pixels[:120]) / 255)
        assert found.labels.tolist() == [row % 10 for row in range(120)]
        assert found.ids.tolist() == list(range(120))
        with pytest.raises(UserError, match="between 1 and 10000"):
            unmask.components.data("robustbench", examples=0)
        with pytest.raises(UserError, match="name the folder"):
            unmask.components.data("robustbench", dataset="imagenet")


class TestTorchHub:
    @pytest.fixture
    def repository(self, tmp_path):
        (tmp_path / "repo").mkdir()
        (tmp_path / "repo" / "hubconf.py").write_text(
            "import torch\n"
            "def linear(classes=4):\n"
            "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, classes))\n"
            "def text():\n"
            "    return 'no model'\n"
        )
        return tmp_path

    def test_an_entry_of_a_local_repository(self, repository):
        with working_from(repository):
            model = unmask.model(
                "torch-hub",
                repo="repo",
                entry="linear",
                source="local",
                classes=7,
                size=4,
                mean=[0.5, 0.5, 0.5],
            )
        assert model(torch.rand(2, 3, 8, 8)).shape == (2, 7)
        assert model.unmask_preprocessing[1].mean.flatten().tolist() == [0.5, 0.5, 0.5]
        assert not model.training

    def test_refusals(self, repository):
        with working_from(repository):
            with pytest.raises(UserError, match="Did you mean 'linear'"):
                unmask.model("torch-hub", repo="repo", entry="liner", source="local")
            with pytest.raises(UserError, match=r"there is no .*hubconf\.py"):
                unmask.model("torch-hub", repo="elsewhere", entry="linear", source="local")
            with pytest.raises(UserError, match=r"not a torch\.nn\.Module"):
                unmask.model("torch-hub", repo="repo", entry="text", source="local")
            with pytest.raises(UserError, match="unexpected keyword argument"):
                unmask.model("torch-hub", repo="repo", entry="linear", source="local", depth=3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("robustbench", {"name": "Standard"}),
        ("hugging-face", {"name": "a/b"}),
        ("art", {"factory": "nets:build"}),
    ],
)
def test_an_absent_library_says_how_it_is_installed(name, options, monkeypatch):
    from unmask_plugins.adapters import libraries

    for module in (
        "models.robustbench_zoo.ROBUSTBENCH",
        "models.hugging_face.TRANSFORMERS",
        "models.art_classifier.ART",
    ):
        library = libraries.Library("it", "no_such_module", "none", "pip install it")
        monkeypatch.setattr(f"unmask_plugins.{module}", library)
    with pytest.raises(UserError, match="needs it, which is not installed: pip install it"):
        unmask.model(name, **options)
