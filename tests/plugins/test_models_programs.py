from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import unmask
from unmask.errors import UserError
from unmask.weights import sha256_of_file


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(12, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, images):
        return self.drop(self.head(images.flatten(1)))


@pytest.fixture
def network() -> Net:
    torch.manual_seed(0)
    return Net().eval()


IMAGES = torch.rand(5, 3, 2, 2, generator=torch.Generator().manual_seed(0))


def script(network: nn.Module, file: Path) -> Path:
    torch.jit.save(torch.jit.trace(network, IMAGES), str(file))
    return file


def export(network: nn.Module, file: Path, *, dynamic: bool = True) -> Path:
    shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
    torch.export.save(torch.export.export(network, (IMAGES,), dynamic_shapes=shapes), str(file))
    return file


@pytest.mark.parametrize(("use", "write"), [("torchscript", script), ("torch-export", export)])
def test_a_saved_program_answers_as_the_network(use: str, write, network: Net, tmp_path: Path) -> None:
    file = write(network, tmp_path / "net.pt2")
    model = unmask.model(use, path=file, classes=3, sha256=sha256_of_file(file), mean=[0.5], std=[0.5])
    torch.testing.assert_close(model(IMAGES[:3]), network((IMAGES[:3] - 0.5) / 0.5))
    assert not any(module.training for module in model.modules())
    labels = network((IMAGES - 0.5) / 0.5).argmax(1)
    results = unmask.evaluate(model, IMAGES, labels, {"pgd": unmask.attack("pgd", steps=2)}, [0.1])
    assert results.unmask.clean_accuracy().item() == 1
    with pytest.raises(UserError, match="sha256"):
        unmask.model(use, path=file, sha256="0" * 64)
    with pytest.raises(UserError, match="3 logits for 7 classes"):
        unmask.model(use, path=file, classes=7)(IMAGES)


@pytest.mark.parametrize("use", ["torchscript", "torch-export"])
def test_what_is_no_program_is_refused(use: str, network: Net, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no file"):
        unmask.model(use, path=tmp_path / "absent.pt")
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    with pytest.raises(UserError, match="is not a"):
        unmask.model(use, path=tmp_path / "weights.pt")


def test_an_exported_program_for_one_batch_size_is_refused(network: Net, tmp_path: Path) -> None:
    file = export(network, tmp_path / "net.pt2", dynamic=False)
    with pytest.raises(UserError, match="batches of 5 images only"):
        unmask.model("torch-export", path=file)


def test_an_exported_program_cannot_be_trained(network: Net, tmp_path: Path) -> None:
    model = unmask.model("torch-export", path=export(network, tmp_path / "net.pt2"))
    with pytest.raises(UserError, match="cannot be trained"):
        model.train()
