"""How a kernel runs: compiled by Inductor, compiled by TorchScript, or eager, as it is written.

The environment variable ``UNMASK_KERNELS`` (``inductor``, ``torchscript`` or ``eager``) decides; where it is
not set, what the tensors' device makes worthwhile does:

- on a CUDA device with Triton installed, Inductor: a random draw is about 150 elementwise operations, whose
  launches cost more than their arithmetic until they are fused;
- everywhere else, eager. On a CPU the first call of every compiled kernel costs seconds and needs a C++
  compiler at run time, more than a run of a few minutes gets back, because the time goes into the model.
  For runs of hours, ask for Inductor. TorchScript is never chosen unasked: it is deprecated upstream.

Compilation happens at the first call. A kernel that cannot be compiled runs eager from then on, and the first
time this happens to a backend it is said (`CompilationWarning`). Calls with an empty tensor always run eager:
compilers specialise on sizes of zero, for nothing.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

__all__ = [
    "BACKENDS",
    "VARIABLE",
    "CompilationWarning",
    "backend",
    "by_rows",
    "chosen_backend",
    "kernel",
    "kernels",
]

BACKENDS = ("inductor", "torchscript", "eager")
VARIABLE = "UNMASK_KERNELS"

P = ParamSpec("P")
R = TypeVar("R")


class CompilationWarning(RuntimeWarning):
    """A kernel could not be compiled and runs eager."""


_forced: ContextVar[tuple[str, bool] | None] = ContextVar("unmask_kernels_backend", default=None)
_registered: dict[str, Callable[..., Any]] = {}
_warned: set[str] = set()
_lock = threading.Lock()


def kernels() -> dict[str, Callable[..., Any]]:
    """Every kernel defined so far, by ``module.name``."""
    return dict(_registered)


def _known(name: str, source: str) -> str:
    if name not in BACKENDS:
        raise ValueError(f"{source} is {name!r}; known backends: {', '.join(BACKENDS)}.")
    return name


@contextmanager
def backend(name: str, *, strict: bool = False) -> Iterator[None]:
    """Runs every kernel called inside by this backend, whatever the environment says.

    Args:
        name: ``inductor``, ``torchscript`` or ``eager``.
        strict: Raise the compiler's error instead of falling back to eager.

    Raises:
        ValueError: Unknown backend.
    """
    token = _forced.set((_known(name, "the backend"), strict))
    try:
        yield
    finally:
        _forced.reset(token)


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def chosen_backend(device: torch.device | str = "cpu") -> str:
    """The backend that a kernel called now with tensors on `device` runs by.

    Raises:
        ValueError: ``UNMASK_KERNELS`` is set to something unknown.
    """
    forced = _forced.get()
    if forced is not None:
        return forced[0]
    asked = os.environ.get(VARIABLE)
    if asked:
        return _known(asked, f"the environment variable {VARIABLE}")
    return "inductor" if torch.device(device).type == "cuda" and _has_triton() else "eager"


def by_rows(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Applies a function that treats every row alone, such as a projection, to tensors [n, ...].

    Eager on a CPU it goes over the rows in slices whose temporaries stay in the cache, which is several times
    faster for large batches and takes less memory; otherwise in one call.
    """
    first = tensors[0]
    slice_size = 2**17 * torch.get_num_threads()
    if first.numel() <= slice_size or first.device.type != "cpu" or chosen_backend() != "eager":
        return function(*tensors)
    rows = max(1, slice_size * len(first) // first.numel())
    return torch.cat(
        [function(*parts) for parts in zip(*(torch.split(t, rows) for t in tensors), strict=True)]
    )


def _script(function: Callable[P, R]) -> Callable[P, R]:
    with warnings.catch_warnings():
        # Deprecated upstream and known to be: it is one of three backends and nothing depends on it.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        scripted: Callable[P, R] = torch.jit.script(function)
    return scripted


def _induce(function: Callable[P, R]) -> Callable[P, R]:
    # dynamic: one compilation serves batches of every size; fullgraph: a silent graph break is a failure.
    induced: Callable[P, R] = torch.compile(function, dynamic=True, fullgraph=True)
    return induced


_compilers: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "inductor": _induce,
    "torchscript": _script,
}


def _is_recompilation_limit(error: Exception) -> bool:
    """Whether a compiled kernel only met more kinds of arguments than the compiler keeps versions for."""
    return any("RecompileLimit" in ancestor.__name__ for ancestor in type(error).__mro__)


def _say(function: Callable[..., Any], name: str, cause: Exception) -> None:
    with _lock:
        if name in _warned:
            return
        _warned.add(name)
    reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
    warnings.warn(
        f"{name} cannot compile the kernel {function.__name__} ({reason}); it runs eager, and so does "
        f"every further kernel that fails. Set {VARIABLE}=eager to choose this from the start.",
        CompilationWarning,
        stacklevel=4,
    )


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a function of tensors a kernel: same name, signature, types and documentation; compiled lazily.

    The function stays in the subset that both compilers take: tensors and plain numbers in, tensors out,
    no keyword-only arguments, no global values, other kernels only through undecorated helpers. It changes
    none of its arguments, so that it can be run again eager when the compiled form fails. The result can be
    pickled and copied like any function.
    """
    compiled: dict[str, Callable[P, R]] = {}

    def fall_back(name: str, cause: Exception, *args: P.args, **kwargs: P.kwargs) -> R:
        # Where the arguments are at fault this raises again, in plain words and without blame on a compiler.
        result = function(*args, **kwargs)
        if not _is_recompilation_limit(cause):
            compiled[name] = function
            _say(function, name, cause)
        return result

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        name = chosen_backend(tensors[0].device if tensors else "cpu")
        if name == "eager" or any(tensor.numel() == 0 for tensor in tensors):
            return function(*args, **kwargs)
        forced = _forced.get()
        strict = forced is not None and forced[1]
        try:
            with _lock:
                if name not in compiled or (strict and compiled[name] is function):
                    compiled[name] = _compilers[name](function)
            return compiled[name](*args, **kwargs)
        except torch.cuda.OutOfMemoryError:
            raise  # the caller's business: a smaller batch
        except Exception as cause:
            if strict:
                raise
            return fall_back(name, cause, *args, **kwargs)

    _registered[f"{function.__module__.rpartition('.')[2]}.{function.__name__}"] = run
    return run
