"""The built-in classifiers, offered through the same hook as anybody's."""

from __future__ import annotations

from collections.abc import Iterable

from unmask.entries import ModelEntry
from unmask.markers import hookimpl

__all__ = ["unmask_models"]


@hookimpl
def unmask_models() -> Iterable[ModelEntry]:
    """Classifiers."""
    return [
        ModelEntry(
            name="small-cnn",
            summary="Three convolutions and a linear layer for small images, trained in seconds.",
            reference="LeCun et al. 1998, Gradient-based learning applied to document recognition (the kind "
            "of network); Ioffe and Szegedy 2015, arXiv:1502.03167 (batch normalisation)",
            build="unmask_plugins.models.small_cnn:SmallCNN",
            recipe={"use": "standard", "rate": 0.01, "shift": 1, "noise": 0.12},
        ),
        ModelEntry(
            name="module",
            summary="A model of your own: whatever the function 'package.module:callable' returns.",
            reference="torch.nn.Module, https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",
            build="unmask_plugins.models.module:module",
        ),
        ModelEntry(
            name="cifar-resnet",
            summary="ResNet for small images: ResNet-18 to -152 with a 3 x 3 stem, or ResNet-20 to -110.",
            reference="He, Zhang, Ren and Sun 2016, Deep Residual Learning for Image Recognition, "
            "arXiv:1512.03385, table 1 and section 4.2",
            build="unmask_plugins.models.cifar_resnet:CifarResNet",
            recipe={"use": "standard"},
        ),
        ModelEntry(
            name="wide-resnet",
            summary="WideResNet for small images, such as WRN-28-10.",
            reference="Zagoruyko and Komodakis 2016, Wide Residual Networks, arXiv:1605.07146",
            build="unmask_plugins.models.wide_resnet:WideResNet",
            recipe={"use": "standard"},
        ),
        ModelEntry(
            name="timm",
            summary="Any classifier of timm, with its own normalisation and input size inside.",
            reference="Wightman 2019, PyTorch Image Models, doi:10.5281/zenodo.4414861",
            build="unmask_plugins.models.timm_zoo:timm_model",
            recipe={"use": "standard"},
        ),
        ModelEntry(
            name="torchvision",
            summary="Any classifier of torchvision, with its own normalisation and input size inside.",
            reference="TorchVision maintainers 2016, https://github.com/pytorch/vision",
            build="unmask_plugins.models.torchvision_zoo:torchvision_model",
            recipe={"use": "standard"},
        ),
        ModelEntry(
            name="torchscript",
            summary="A classifier that torch.jit.save wrote.",
            reference="https://docs.pytorch.org/docs/stable/jit.html",
            build="unmask_plugins.models.programs:torchscript",
        ),
        ModelEntry(
            name="torch-export",
            summary="A classifier that torch.export.save wrote.",
            reference="https://docs.pytorch.org/docs/stable/export.html",
            build="unmask_plugins.models.programs:exported",
        ),
        ModelEntry(
            name="robustbench",
            summary="Any model of RobustBench's zoo (needs robustbench).",
            reference="Croce et al. 2021, RobustBench: a standardized adversarial robustness benchmark, "
            "arXiv:2010.09670",
            build="unmask_plugins.models.robustbench_zoo:robustbench_model",
        ),
        ModelEntry(
            name="hugging-face",
            summary="Any image classifier of the Hugging Face hub or a local folder, its processor inside "
            "(needs transformers).",
            reference="Wolf et al. 2020, Transformers: State-of-the-Art Natural Language Processing, "
            "arXiv:1910.03771",
            build="unmask_plugins.models.hugging_face:hugging_face_model",
        ),
        ModelEntry(
            name="art",
            summary="A PyTorchClassifier of ART, with its preprocessing inside (needs art).",
            reference="Nicolae et al. 2018, Adversarial Robustness Toolbox, arXiv:1807.01069",
            build="unmask_plugins.models.art_classifier:art_classifier",
        ),
        ModelEntry(
            name="torch-hub",
            summary="What a repository offers to torch.hub, from GitHub or a local folder.",
            reference="https://docs.pytorch.org/docs/stable/hub.html",
            build="unmask_plugins.models.torch_hub:torch_hub_model",
        ),
    ]
