"""Reading and writing weights without ever running code that a file brings along."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = [
    "load_state",
    "load_weights",
    "read_state_dict",
    "save_weights",
    "sha256_of_file",
    "sha256_of_state",
]

_CONTAINERS = (
    "state_dict",
    "model_state_dict",
    "model",
    "net",
    "network",
    "state_dict_ema",
    "ema_state_dict",
    "model_ema",
    "ema_model",
    "ema",
)
"""Keys under which checkpoints keep their state dict; averaged weights only where there are no others."""

_PREFIXES = ("module.", "_orig_mod.")
"""What `DataParallel` and `torch.compile` put before every name."""


def sha256_of_file(path: Path | str) -> str:
    """The sha256 of a file's bytes, in hexadecimal digits.

    Raises:
        UserError: The file is missing or unreadable.
    """
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(Path(path), error) from error


def sha256_of_state(state: Mapping[str, Tensor]) -> str:
    """The sha256 of named tensors: names, types, shapes and values, whatever their order or device."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name}\x1f{tensor.dtype}\x1f{tuple(tensor.shape)}\x1e".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return digest.hexdigest()


def read_state_dict(path: Path | str, *, sha256: str | None = None) -> dict[str, Tensor]:
    """The named tensors of a weights file, on the CPU.

    Reads safetensors, and what `torch.save` wrote (``.pt``, ``.pth``, ``.th``) as far as it holds only
    tensors and plain values. The state dict may be bare or under one of the usual keys of a checkpoint.

    Args:
        path: The file.
        sha256: What its bytes must hash to, in hexadecimal digits; checked before anything is read.

    Raises:
        UserError: The file is missing, has another hash, is damaged, would have to run code to be read, or
            holds no state dict.
    """
    return _read(Path(path), sha256)[0]


def load_weights(module: nn.Module, path: Path | str, *, sha256: str | None = None) -> str:
    """Load a weights file into a module; every name and shape must fit.

    Args:
        module: Takes the weights, on whatever device it is.
        path: See `read_state_dict`.
        sha256: See `read_state_dict`.

    Returns:
        The sha256 of the file.

    Raises:
        UserError: As `read_state_dict` and `load_state`; the module is then unchanged.
    """
    state, found = _read(Path(path), sha256)
    load_state(module, state, f"'{path}'")
    return found


def load_state(module: nn.Module, state: Mapping[str, Tensor], source: str = "the state dict") -> None:
    """Load named tensors into a module; every name and shape must fit.

    Prefixes that wrappers put before names are removed where the module does not have them itself.

    Args:
        module: Takes the weights.
        state: The tensors.
        source: What the error message calls them.

    Raises:
        UserError: Missing or unexpected names, other shapes, values that are not finite; the module is then
            unchanged.
    """
    import torch

    wanted = module.state_dict()
    given = dict(state) if set(state) == set(wanted) else _without_prefixes(state, source)
    problems = []
    missing = [name for name in wanted if name not in given and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in given if name not in wanted]
    if missing:
        problems.append(f"it lacks {_listed(missing)}")
    if unexpected:
        problems.append(f"it has {_listed(unexpected)}, which the model does not know")
    common = [name for name in given if isinstance(wanted.get(name), torch.Tensor)]
    shapes = [
        f"{name} is {_shape(given[name])} instead of {_shape(wanted[name])}"
        for name in common
        if given[name].shape != wanted[name].shape
    ]
    if shapes:
        problems.append("shapes differ: " + _listed(shapes, quote=False))
    if problems:
        raise UserError(
            f"{source} does not fit this {type(module).__name__}: {'; '.join(problems)}. "
            "Give the weights of this very architecture, or the options (depth, width, classes, ...) of "
            "the model they were trained for."
        )
    broken = [n for n in common if given[n].is_floating_point() and not bool(torch.isfinite(given[n]).all())]
    if broken:
        raise UserError(
            f"{source} holds values that are not finite in {_listed(broken)}; its training has diverged. "
            "Give weights of another checkpoint."
        )
    try:
        module.load_state_dict(given, strict=False)
    except RuntimeError as error:
        raise UserError(f"{source} does not fit this {type(module).__name__}: {error}") from error


def save_weights(
    state: Mapping[str, Tensor], path: Path | str, metadata: Mapping[str, str] | None = None
) -> Path:
    """Write named tensors as safetensors; the file appears whole or not at all.

    Raises:
        UserError: Something in the state dict is no tensor, or the file cannot be written.
    """
    import safetensors.torch
    import torch

    path = Path(path)
    others = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise UserError(f"only tensors can be saved as weights, which {_listed(others)} are not.")
    # Copies: safetensors refuses tensors that share memory, such as tied weights.
    whole = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
    content = safetensors.torch.save(whole, metadata=dict(metadata or {}))
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"weights cannot be written to '{path}': {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _read(path: Path, sha256: str | None) -> tuple[dict[str, Tensor], str]:
    """The state dict and the hash of the very bytes it was read from."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256.strip().lower():
        raise UserError(
            f"'{path}' has the sha256 {found}, not {sha256}; nothing was loaded. "
            "Get the file again, or correct the hash if the file is the one you mean."
        )
    if path.suffix.lower() == ".safetensors":
        return _from_safetensors(content, path), found
    return _state_dict_in(_from_pickle(content, path), path), found


def _unreadable(path: Path, error: OSError) -> UserError:
    if isinstance(error, FileNotFoundError):
        return UserError(
            f"there is no file '{path}'. Correct the path; a relative one in a manifest starts from the "
            "manifest's folder."
        )
    return UserError(f"'{path}' cannot be read: {error.strerror or error}.")


def _from_safetensors(content: bytes, path: Path) -> dict[str, Tensor]:
    import safetensors
    import safetensors.torch

    try:
        return safetensors.torch.load(content)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise UserError(f"'{path}' is not a whole safetensors file: {error}. Get it again.") from error


def _from_pickle(content: bytes, path: Path) -> Any:
    import torch

    try:
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if "Unsupported" in str(error) or "GLOBAL" in str(error):
            raise UserError(
                f"'{path}' can only be read by running code that it brings along, which is refused: "
                f"{_first_sentence(error)} If you trust it, load it yourself once and save the bare weights "
                "with torch.save(model.state_dict(), ...) or as safetensors."
            ) from error
        raise _damaged(path, error) from error
    except Exception as error:  # torch raises many kinds for damaged files
        if "TorchScript" in str(error):
            raise UserError(
                f"'{path}' is a TorchScript archive, not a state dict. Use the model 'torchscript' with this "
                "path, or save the bare weights with torch.save(model.state_dict(), ...)."
            ) from error
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> UserError:
    return UserError(
        f"'{path}' is not a weights file that torch can read, or is damaged ({_first_sentence(error)}). "
        "Weights are .safetensors, .pt, .pth or .th files."
    )


def _first_sentence(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    start = text.find("Unsupported global")
    text = text[start:] if start >= 0 else text
    return text if len(text) <= 160 else f"{text[:157]}..."


def _state_dict_in(value: Any, path: Path) -> dict[str, Tensor]:
    import torch

    found = value
    for _ in range(3):  # a checkpoint may nest: {"model": {"state_dict": {...}}}
        if not isinstance(found, Mapping):
            break
        if found and all(isinstance(v, torch.Tensor) for v in found.values()):
            return {str(name): tensor for name, tensor in found.items()}
        container = next((key for key in _CONTAINERS if isinstance(found.get(key), Mapping)), None)
        if container is None:
            break
        found = found[container]
    keys = _listed([str(key) for key in value]) if isinstance(value, Mapping) and value else None
    raise UserError(
        f"'{path}' holds no state dict: "
        + (
            f"its keys are {keys}"
            if keys
            else f"it is a {type(value).__name__}" + " without entries" * (value == {})
        )
        + f". A state dict may be bare, or under one of {', '.join(_CONTAINERS)}."
    )


def _without_prefixes(state: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    stripped: dict[str, Tensor] = {}
    wrapped = any(name.startswith("module.") for name in state)
    for name, tensor in state.items():
        if wrapped and name == "n_averaged":  # the counter of torch.optim.swa_utils.AveragedModel
            continue
        short = name.replace("_orig_mod.", "")
        while short.startswith(_PREFIXES):
            short = short.partition(".")[2]
        if short in stripped:
            raise UserError(f"{source} has '{short}' twice, with and without a wrapper's prefix.")
        stripped[short] = tensor
    return stripped


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a single number"


def _listed(names: list[str], *, quote: bool = True, most: int = 6) -> str:
    shown = [f"'{name}'" if quote else name for name in names[:most]]
    more = len(names) - most
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
