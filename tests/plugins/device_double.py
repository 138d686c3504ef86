"""Everything runs on the device it is asked to run on: shown with a device that does not exist.

Its tensors hold tensors of the CPU, which do the arithmetic; an operation that mixes the two raises, as it
would on an accelerator. So outcomes are the CPU's, and whatever is made on the wrong device is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

import unmask

NAME = "elsewhere"


class There(Tensor):
    """A tensor of the device; `raw` holds its values."""

    raw: Tensor

    @staticmethod
    def __new__(cls, raw: Tensor) -> There:
        made = Tensor._make_wrapper_subclass(
            cls,
            raw.shape,
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device(NAME, 0),
        )
        made.raw = raw
        return made

    def __repr__(self) -> str:
        return f"There({self.raw})"

    def tolist(self):
        return self.raw.detach().tolist()

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return _run(operation, args, kwargs or {})


def _run(operation, args, kwargs):
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    there = [t for t in tensors if isinstance(t, There)]
    here = [t for t in tensors if not isinstance(t, There) and t.ndim]
    name = operation._schema.name
    if there and here and name not in ("aten::copy_", "aten::_to_copy"):
        raise RuntimeError(f"{name} was given tensors of two devices")
    asked = kwargs.get("device")
    raw_args, raw_kwargs = tree_map(lambda x: x.raw if isinstance(x, There) else x, (args, kwargs))
    if asked is not None:
        raw_kwargs["device"] = torch.device("cpu")
    found = operation(*raw_args, **raw_kwargs)
    if not (there if asked is None else torch.device(asked).type == NAME):
        return found
    wrapped = tree_map(lambda x: There(x) if isinstance(x, Tensor) else x, found)
    return return_and_correct_aliasing(operation, args, kwargs, wrapped)


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return _run(operation, args, kwargs or {})


class _Constructors(TorchFunctionMode):
    """`torch.tensor` on the device: made on the CPU, then moved, since it goes past the operations."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return function(*args, **kwargs).to(device)
        return function(*args, **kwargs)


class _Module:
    """What PyTorch asks of a device: it has no generators of its own."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return 0

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        pass

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16]


@pytest.fixture(scope="module")
def device() -> Iterator[str]:
    registration = pytest.importorskip("torch.utils.backend_registration")
    if not hasattr(registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip("this PyTorch takes no device written in Python")
    registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    with _Constructors(), _Operations():
        yield NAME


@pytest.fixture(scope="module")
def problem():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4)
        ).eval()
        images = torch.rand(6, 3, 8, 8)
    with torch.no_grad():
        return model, images, model(images).argmax(1)


def test_the_double_tells_devices_apart(device) -> None:
    there, here = torch.ones(3, device=device), torch.ones(3)
    assert there.device.type == NAME
    assert (there + 1).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="two devices"):
        there + here
    assert (there.cpu() + here).device.type == "cpu"


def pgd(source):
    return unmask.attack("pgd", steps=2, gradient=source)


ATTACKS = {
    "linf": {
        "pgd": unmask.attack("pgd", steps=9),
        "apgd-t": unmask.attack("apgd", steps=5, loss="dlr", targets=2),
        "square": unmask.attack("square", queries=10),
        "fab": unmask.attack("fab", steps=2),
        "zero-order": pgd({"use": "finite-difference", "square": 8, "group": 2}),
        "nes": pgd("nes"),
        "spsa": pgd("spsa"),
        "hop-skip-jump": unmask.attack("hop-skip-jump", steps=1),
        "limited": unmask.attack("pgd", steps=8, max_queries=5),
    },
    "l2": {
        "carlini-wagner": unmask.attack("carlini-wagner", steps=1),
        "ddn": unmask.attack("ddn", steps=2),
        "deepfool": unmask.attack("deepfool", steps=3),
        "boundary": unmask.attack("boundary", steps=3),
        "square": unmask.attack("square", queries=10),
    },
    "l1": {
        "apgd": unmask.attack("apgd", steps=5),
        "fmn": unmask.attack("fmn", steps=3),
        "square": unmask.attack("square", queries=10),
    },
}
RADIUS = {"linf": 0.03, "l2": 0.2, "l1": 2.0}


def compared(model, images, labels, attacks, norm, device, **options):
    here = unmask.evaluate(model, images, labels, attacks, [RADIUS[norm]], norm=norm, **options)
    there = unmask.evaluate(
        model, images, labels, attacks, [RADIUS[norm]], norm=norm, device=device, **options
    )
    assert there.attrs["device"].startswith(NAME)
    assert not (there.message != "").any(), there.message.values
    np.testing.assert_array_equal(there.correct, here.correct)
    np.testing.assert_allclose(there.margin, here.margin, atol=1e-3)
    np.testing.assert_array_equal(there.forwards, here.forwards)
    return here, there


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_attacks_stay_on_their_device(problem, device, norm) -> None:
    model, images, labels = problem
    compared(model, images, labels, ATTACKS[norm], norm, device)
    assert next(model.parameters()).device.type == "cpu"


@pytest.mark.parametrize(
    "options",
    [
        {"prepare": "channels-last"},
        {"quantize": "8bit"},
        {"trace": True},
        {"diagnose": True},
        {"keep_examples": True},
        {"metrics": ["calibration", {"use": "certified-radius", "sigma": 0.1, "n": 20, "n0": 5}]},
        {"protocol": "single-draw"},
        {"batch_size": 2},
    ],
    ids=lambda options: next(iter(options)),
)
def test_so_does_what_comes_before_and_after(problem, device, options) -> None:
    model, images, labels = problem
    _, there = compared(
        model, images, labels, {"pgd": unmask.attack("pgd", steps=3)}, "linf", device, **options
    )
    if "prepare" in options:
        assert json.loads(there.attrs["preparation"])["models"]["model"]["backend"] == "channels-last"


def test_so_do_ensembles_front_ends_and_targets(problem, device) -> None:
    model, images, labels = problem
    with torch.random.fork_rng():
        torch.manual_seed(1)
        front_end = unmask.front_end("dncnn", depth=3, channels=4).eval()
    ensemble = unmask.RandomizedEnsemble([model, unmask.Defended(front_end, model)]).eval()
    attacks = {
        "pgd": unmask.attack("pgd", steps=2, eot=2),
        "bypass": unmask.attack("pgd", steps=2, gradient={"use": "bypass"}),
        "towards": unmask.attack("pgd", steps=3, targeted=True, target=1),
    }
    compared(ensemble, images, labels, attacks, "linf", device)


def test_a_device_without_half_precision_searches_in_float32_and_says_so(problem, device) -> None:
    model, images, labels = problem
    attacks = {"pgd": unmask.attack("pgd", steps=9), "square": unmask.attack("square", queries=20)}
    there = unmask.evaluate(model, images, labels, attacks, [0.03], precision="fast", device=device)
    here = unmask.evaluate(model, images, labels, attacks, [0.03])
    assert not (there.message != "").any(), there.message.values
    np.testing.assert_array_equal(there.correct, here.correct)
    assert json.loads(there.attrs["preparation"])["models"]["model"]["precision"] == "float32"
    assert any("Autocast" in warning for warning in json.loads(there.attrs["warnings"]))
