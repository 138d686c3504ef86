"""The forms that a part of a model can take, and which of them answers."""

from __future__ import annotations

import copy
import itertools
import types
import warnings
from collections.abc import Callable
from typing import Any, Literal

import attrs
import torch
from torch import Tensor, nn

from unmask.evaluation.backward import StraightThrough
from unmask.evaluation.preparation.folding import fold_batch_norm
from unmask.models.defended import Defended
from unmask.models.surrogates import surrogate_of

__all__ = ["Compilations", "Form", "FormName", "Forms", "build", "parts_of"]

FormName = Literal["eager", "folded", "channels-last", "torchscript", "inductor"]


@attrs.define
class Compilations:
    """How many graphs were compiled in a run."""

    count: int = 0

    def inductor(self, graph: Any, inputs: list[Tensor]) -> Any:
        """The backend of `torch.compile` that counts."""
        self.count += 1
        return torch._dynamo.lookup_backend("inductor")(graph, inputs)


class Compiled(nn.Module):
    """A module compiled by Inductor, once for all batch sizes.

    Dynamo keeps what it compiles with the code that it has read, compiles a piece of code a few times at most
    in a process, and then runs it as it is without a word. So every form has a piece of code of its own.

    Args:
        module: What is compiled.
        frozen: Nothing is ever differentiated: the weights become part of the code, packed once in the order
            that is fastest.
        compilations: Counts.
    """

    _made = itertools.count()

    def __init__(self, module: nn.Module, frozen: bool, compilations: Compilations) -> None:
        super().__init__()
        self.module, self.frozen = module, frozen

        def answer(images: Tensor) -> Tensor:
            answered: Tensor = module(images)
            return answered

        own = answer.__code__.replace(co_name=f"answer_{next(self._made)}")
        piece = types.FunctionType(own, globals(), own.co_name, None, answer.__closure__)
        self.compiled = torch.compile(piece, dynamic=True, backend=compilations.inductor)

    def forward(self, images: Tensor) -> Tensor:
        """What the module gives."""
        answer: Tensor
        # Dynamo looks at this when it reads the code, which may be at any call.
        with torch._inductor.config.patch(freezing=self.frozen):
            answer = self.compiled(images)
        return answer


@attrs.frozen(eq=False)
class Form:
    """A part of a model in a form of its own.

    Attributes:
        name: Which.
        forward: Answers where nothing is differentiated.
        gradient: Answers where something is.
        folded: Normalisations that went into the convolutions before them.
    """

    name: FormName
    forward: nn.Module
    gradient: nn.Module
    folded: int = 0


class InSinglePrecision(nn.Module):
    """A linear layer that stays in float32 whatever its model is cast to.

    As the last layer it gives logits in steps as fine as float32's: a search by scores sees small gains,
    which bfloat16, with its eight bits, would round away.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, features: Tensor) -> Tensor:
        """Logits."""
        with torch.autocast(features.device.type, enabled=False):
            logits: Tensor = self.linear(features.float())
        return logits

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> InSinglePrecision:
        moved: InSinglePrecision = super()._apply(  # type: ignore[no-untyped-call]
            lambda tensor: tensor.to(fn(tensor).device), recurse
        )
        return moved


def keep_logits_fine(model: nn.Module, images: Tensor) -> bool:
    """Put the linear layer that the logits come from into single precision, if there is one.

    Changes the model. It is the last one whose answers have the logits' shape; a scale may come after it.
    """
    answers: list[tuple[nn.Module, Any]] = []
    layers: dict[nn.Module, tuple[nn.Module, str]] = {
        m: (p, n) for p in model.modules() for n, m in p.named_children() if type(m) is nn.Linear
    }
    hooks = [m.register_forward_hook(lambda m, _, out: answers.append((m, out))) for m in layers]
    try:
        with torch.no_grad():
            answer = model(images.clone())
    finally:
        for hook in hooks:
            hook.remove()
    for layer, given in reversed(answers):
        if given.shape == answer.shape:
            parent, name = layers[layer]
            setattr(parent, name, InSinglePrecision(layer))
            return True
    return False


class Autocast(nn.Module):
    """A module whose convolutions and matrix products run in bfloat16; float32 in, float32 out."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.module, self.device_type = module, device.type

    def forward(self, images: Tensor) -> Tensor:
        """What the module gives."""
        with torch.autocast(self.device_type, dtype=torch.bfloat16):
            answer: Tensor = self.module(images)
        return answer.float()


class Bfloat16(nn.Module):
    """A module all of whose arithmetic is bfloat16; float32 in, float32 out."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).to(torch.bfloat16)

    def forward(self, images: Tensor) -> Tensor:
        """What the module gives."""
        answer: Tensor = self.module(images.to(torch.bfloat16))
        return answer.float()


def build(name: FormName, part: nn.Module, images: Tensor, half: bool, compilations: Compilations) -> Form:
    """A form of a part; the part itself is left as it is.

    Args:
        name: Which.
        part: In eval mode.
        images: What it is shown, [sample, channel, height, width], on its device.
        half: Compute in bfloat16 where that is safe.
        compilations: Counts.

    Raises:
        Exception: Whatever a copy, a trace or a compiler raises.
    """
    work = copy.deepcopy(part).eval().requires_grad_(False)
    folded = 0
    if name != "eager":
        folded = fold_batch_norm(work, images)
    if name not in ("eager", "folded"):
        work = work.to(memory_format=torch.channels_last)
    if half:
        keep_logits_fine(work, images)
    module: nn.Module = Autocast(work, images.device) if half else work
    forward = module
    if name == "torchscript":
        forward = _scripted(module, images)
        compilations.count += 1
    elif name == "inductor":
        forward = Compiled(module, True, compilations)
        module = Compiled(module, False, compilations)
    return Form(name, forward, module, folded)


def _scripted(module: nn.Module, images: Tensor) -> nn.Module:
    with warnings.catch_warnings(), torch.no_grad():
        # Deprecated upstream, and never chosen unasked.
        warnings.simplefilter("ignore")
        # Copies, since some models work in place.
        traced = torch.jit.trace(module.eval(), images.clone(), check_trace=False)
        scripted = torch.jit.freeze(traced)
        if images.device.type != "cpu":
            # On the CPU its kernels round a row by the size of its batch, and are no faster.
            scripted = torch.jit.optimize_for_inference(scripted)
        # The first calls gather statistics and optimise once more.
        for _ in range(3):
            scripted(images.clone())
    answering: nn.Module = scripted
    return answering


def parts_of(module: nn.Module) -> list[nn.Module]:
    """What is prepared on its own: front ends and the classifier behind them."""
    if isinstance(module, Defended):
        return [*parts_of(module.front_end), *parts_of(module.backbone)]
    return [module]


class _FrontEnd(nn.Module):
    """A front end's form, with the front end's own surrogate for the backward pass."""

    def __init__(self, form: nn.Module, surrogate: Callable[[Tensor], Tensor] | None) -> None:
        super().__init__()
        self.form = form
        if surrogate is not None:
            object.__setattr__(self, "surrogate", surrogate)

    def forward(self, images: Tensor) -> Tensor:
        """Images."""
        shown: Tensor = self.form(images)
        return shown


@attrs.define(eq=False)
class Forms:
    """The forms that answer in the place of a model's parts.

    Attributes:
        forms: By the identity of the part.
        error: By how much a margin may differ from the plain model's.
        compiled: Calls must come in buckets.
    """

    forms: dict[int, Form]
    error: float = 0.0
    compiled: bool = False
    _made: dict[tuple[int, bool, bool], nn.Module] = attrs.field(factory=dict, repr=False)

    def of(self, module: nn.Module, graph: bool) -> nn.Module:
        """What answers in the place of a module that is made of prepared parts."""
        straight = isinstance(module, StraightThrough)
        inner = module.model if isinstance(module, StraightThrough) else module
        key = id(inner), straight, graph
        if key not in self._made:
            made = self._composed(inner, graph)
            self._made[key] = StraightThrough(made) if straight else made
        return self._made[key]

    def _composed(self, module: nn.Module, graph: bool) -> nn.Module:
        if isinstance(module, Defended):
            front_end = _FrontEnd(self._composed(module.front_end, graph), surrogate_of(module.front_end))
            return Defended(front_end, self._composed(module.backbone, graph)).eval()
        form = self.forms.get(id(module))
        if form is None:
            return module
        return form.gradient if graph else form.forward
