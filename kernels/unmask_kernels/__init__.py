"""Tensor kernels: functions from tensors to tensors, without models, input or output.

A kernel makes a batch (probes, windows, random numbers) or reduces one (finite differences, expectations,
losses, projections); the model call lies between, elsewhere. This package stands alone: it needs torch and
nothing else, and importing it does not yet import torch.

`balls`
    Projections onto norm balls, exact in the stored numbers; steepest directions; norms.
`compiling`
    The one place that decides how a kernel runs: Inductor, TorchScript or eager (``UNMASK_KERNELS``).
`expectation`
    Means over draws or members.
`finite_differences`
    Probes of a zero-order gradient, and their reduction.
`losses`
    What attacks climb, one number per sample.
`philox`
    Counter-based random numbers, one stream per sample.
`provider`
    The functions that the framework asks for, in one module.
`radii`
    Balls round zero with a radius for every sample.
`squares`
    Windows and stripes of the Square Attack.
"""
