"""The wrapper: which backend, said how, and what happens when a kernel cannot be compiled."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from unmask_kernels import compiling, finite_differences
from unmask_kernels.compiling import CompilationWarning, backend, by_rows, chosen_backend, kernel


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("UNMASK_KERNELS", raising=False)
    monkeypatch.setattr(compiling, "_warned", set())
    monkeypatch.setattr(compiling, "_registered", {})
    yield


def _twice(x: Tensor, factor: float = 2.0) -> Tensor:
    """Twice."""
    return x * factor


def _failing(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    raise RuntimeError("no compiler here\nand more lines")


def test_a_cpu_runs_eager_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_backend("cpu") == "eager"
    monkeypatch.setenv("UNMASK_KERNELS", "torchscript")
    assert chosen_backend("cpu") == "torchscript"
    with backend("inductor"):
        assert chosen_backend("cpu") == "inductor"
    assert chosen_backend("cpu") == "torchscript"


def test_cuda_runs_inductor_where_there_is_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_has_triton", lambda: True)
    assert chosen_backend("cuda") == "inductor"
    monkeypatch.setattr(compiling, "_has_triton", lambda: False)
    assert chosen_backend("cuda:1") == "eager"


def test_an_unknown_backend_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNMASK_KERNELS", "triton")
    with pytest.raises(ValueError, match=r"UNMASK_KERNELS is 'triton'.*inductor, torchscript, eager"):
        kernel(_twice)(torch.ones(2))
    with pytest.raises(ValueError, match=r"'jit'.*inductor, torchscript, eager"), backend("jit"):
        pass


def test_signature_types_and_documentation_stay() -> None:
    wrapped = kernel(_twice)
    assert inspect.signature(wrapped) == inspect.signature(_twice)
    assert wrapped.__doc__ == "Twice."
    assert wrapped.__annotations__ == _twice.__annotations__


def test_kernels_can_be_copied_and_pickled() -> None:
    with backend("torchscript", strict=True):
        finite_differences.block_sizes(torch.zeros((1, 1, 1), dtype=torch.int64))
    assert pickle.loads(pickle.dumps(finite_differences.block_sizes)) is finite_differences.block_sizes
    assert copy.deepcopy(finite_differences.block_sizes) is finite_differences.block_sizes


def test_torchscript_warns_of_nothing() -> None:
    wrapped = kernel(_twice)
    with warnings.catch_warnings(), backend("torchscript", strict=True):
        warnings.simplefilter("error")
        assert torch.equal(wrapped(torch.ones(2), factor=3.0), torch.full((2,), 3.0))


def test_compiles_once_and_only_at_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def compiler(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        compiled.append(function)
        return function

    monkeypatch.setitem(compiling._compilers, "inductor", compiler)
    wrapped = kernel(_twice)
    assert compiled == []
    with backend("inductor"):
        wrapped(torch.ones(0))
        assert compiled == []
        wrapped(torch.ones(2))
        wrapped(torch.ones(3))
    assert compiled == [_twice]


def test_a_kernel_that_cannot_be_compiled_runs_eager_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(compiling._compilers, "inductor", _failing)
    wrapped, another = kernel(_twice), kernel(_twice)
    with backend("inductor"):
        with pytest.warns(CompilationWarning, match=r"inductor .*_twice \(no compiler here\)") as caught:
            assert torch.equal(wrapped(torch.ones(2)), torch.full((2,), 2.0))
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.equal(wrapped(torch.ones(3)), torch.full((3,), 2.0))
            assert torch.equal(another(torch.ones(3)), torch.full((3,), 2.0))


def test_strict_raises_even_after_a_fall_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compiling._compilers, "torchscript", _failing)
    wrapped = kernel(_twice)
    with pytest.warns(CompilationWarning), backend("torchscript"):
        wrapped(torch.ones(2))
    with pytest.raises(RuntimeError, match="no compiler here"), backend("torchscript", strict=True):
        wrapped(torch.ones(2))


def test_a_mistake_of_the_caller_is_not_blamed_on_the_compiler() -> None:
    def add(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    wrapped = kernel(add)
    with warnings.catch_warnings(), backend("torchscript"):
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="must match the size"):
            wrapped(torch.ones(2), torch.ones(3))
        assert torch.equal(wrapped(torch.ones(2), torch.ones(2)), torch.full((2,), 2.0))


def test_out_of_memory_is_the_callers_business(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(x: Tensor) -> Tensor:
        raise torch.cuda.OutOfMemoryError("too much")

    monkeypatch.setitem(compiling._compilers, "inductor", lambda function: exhausted)
    with pytest.raises(torch.cuda.OutOfMemoryError), backend("inductor"):
        kernel(_twice)(torch.ones(2))


def test_by_rows_is_the_call_itself() -> None:
    x = torch.randn((700, 1, 30, 31), generator=torch.Generator().manual_seed(0))
    calls = []

    def halves(some: Tensor, others: Tensor) -> Tensor:
        calls.append(len(some))
        return (some + others).flatten(1).cumsum(1) / 2

    assert torch.equal(by_rows(halves, x, x), x.flatten(1).cumsum(1))
    assert sum(calls) == len(x)
    assert len(calls) > 1
    calls.clear()
    with backend("torchscript"):
        by_rows(halves, x, x)
    assert calls == [len(x)]


def test_importing_the_package_does_not_import_torch() -> None:
    program = "import sys, unmask_kernels; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
