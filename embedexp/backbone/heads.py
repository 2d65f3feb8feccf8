"""Language-model heads: from hidden states to scores over the vocabulary, and back to a file.

Encoders get the head of their family's masked language model, causal families that of their causal
one, as transformers builds it, apart from the model: the embedder stays without.
"""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

from embedexp.config.errors import UserError

from .families import deepseek, family_of
from .loading import DTYPES
from .quiet import quiet
from .source import is_own, resolve
from .weights import HEAD

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from transformers import PretrainedConfig, PreTrainedModel

    from embedexp.config.schema.backbone import Backbone

FILE = HEAD
"""Where a head lies in a model folder, beside the weights of the model."""

log = logging.getLogger(__name__)
T = TypeVar("T")


class LanguageHead(nn.Module):
    """Scores over the v words of a vocabulary: `features(hidden) @ matrix.T + bias`.

    `transform` is what the family does before the last matrix (nothing in causal families).
    `weight [v, d]` is None where the matrix is the model's table of embeddings (tied).
    """

    def __init__(
        self, transform: nn.Module, weight: nn.Parameter | None, bias: nn.Parameter | None
    ) -> None:
        super().__init__()
        self.transform, self.weight, self.bias = transform, weight, bias

    def forward(self, hidden: Tensor, model: nn.Module, then: Callable[..., T]) -> T:
        """What `then(features [t, d], matrix [v, d], bias [v] or None)` makes of hidden states.

        It happens in here, where all weights are at hand, also those that ranks share out.
        """
        table: Tensor = model.get_input_embeddings().weight  # type: ignore[operator]
        matrix = table if self.weight is None else self.weight
        return then(self.transform(hidden), matrix, self.bias)

    def logits(self, hidden: Tensor, model: nn.Module) -> Tensor:
        """All scores, `[t, v]`: for few tokens only, since vocabularies are large."""
        scores: Tensor = self(hidden, model, F.linear)
        return scores


def load(option: Backbone, model: PreTrainedModel) -> LanguageHead:
    """The head of `model`, with the source's weights where the source has a head.

    Looks for the head that an earlier run kept, then for one in the checkpoint itself; else the
    head is new, drawn from torch's global generator. Heads of models that are trained through
    adapters stay as they are if they were found.

    Raises:
        UserError: the head that an earlier run kept belongs to another model.
    """
    head = new(option, model)
    folder = None if option.weights == "random" else resolve(option)
    if folder is None:
        return head
    if (folder / FILE).is_file():
        read(head, folder / FILE)
    elif is_own(folder) or not copy_pretrained(head, option, model, folder):
        log.info("%s has no language-model head: a new one is trained", option.source)
        return head
    return head.requires_grad_(option.lora is None)


def new(option: Backbone, model: PreTrainedModel) -> LanguageHead:
    """A head with random weights, as its family initialises them."""
    whole = shell(option, model, "meta")
    if whole is None:
        width, size = model.config.hidden_size, model.config.vocab_size
        weight = torch.empty(size, width, dtype=DTYPES[option.dtype])
        nn.init.normal_(weight, std=model.config.initializer_range)
        return LanguageHead(nn.Identity(), nn.Parameter(weight), None)
    parts = nn.ModuleList(outer(whole)).to_empty(device="cpu")
    for module in parts.modules():
        for parameter in module.parameters(recurse=False):
            nn.init.zeros_(parameter)  # transformers leaves bare parameters to their construction
        whole._init_weights(module)
    return taken_from(whole)


def save(head: LanguageHead, path: Path) -> None:
    """Write the head's own weights, without the table that it shares with the model."""
    from safetensors.torch import save_file

    state = {name: value.detach().cpu().contiguous() for name, value in head.state_dict().items()}
    save_file(state, path, metadata={"format": "pt"})


def read(head: LanguageHead, path: Path) -> None:
    """Fill a head from a file that `save` wrote.

    Raises:
        UserError: names or shapes differ.
    """
    from safetensors.torch import load_file

    try:
        head.load_state_dict(load_file(path))
    except RuntimeError as error:
        raise UserError(
            f"the language-model head does not fit: {str(error).splitlines()[-1].strip()[:120]}",
            where=str(path),
            hint="it belongs to another model; remove it to train a new one",
        ) from None


def copy_pretrained(
    head: LanguageHead, option: Backbone, model: PreTrainedModel, folder: Path
) -> bool:
    """Fill a head from a checkpoint of the whole language model; False if it has no head."""
    config = head_config(option, model)
    automatic = automatic_class(option)
    if type(config) not in automatic._model_mapping:
        return copy_matrix(head, folder)
    with quiet():
        whole, report = automatic.from_pretrained(
            folder,
            config=config,
            dtype=DTYPES[option.dtype],
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    lacking = set(report["missing_keys"])
    if any(not name.startswith(f"{whole.base_model_prefix}.") for name in lacking):
        return False
    head.load_state_dict(taken_from(whole).state_dict())
    return True


def copy_matrix(head: LanguageHead, folder: Path) -> bool:
    """Fill a head that is one matrix from a checkpoint of a family that transformers lacks."""
    from safetensors import safe_open

    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            if "lm_head.weight" in file.keys():  # noqa: SIM118
                head.load_state_dict({"weight": file.get_tensor("lm_head.weight")})
                return True
    return False


def shell(option: Backbone, model: PreTrainedModel, device: str) -> PreTrainedModel | None:
    """The family's whole language model with one block; None where transformers has none."""
    config = head_config(option, model)
    automatic = automatic_class(option)
    if type(config) not in automatic._model_mapping:
        return None
    with torch.device(device), quiet():
        whole: PreTrainedModel = automatic.from_config(config, dtype=DTYPES[option.dtype])
    return whole


def automatic_class(option: Backbone) -> Any:
    """The class of transformers that picks the family's language model."""
    causal = family_of(option.architecture).causal
    return AutoModelForCausalLM if causal else AutoModelForMaskedLM


def head_config(option: Backbone, model: PreTrainedModel) -> PretrainedConfig:
    """The configuration that the head is built from: the model's, but with one block.

    A model whose positions were converted keeps the head of the family that it came from.
    """
    if option.positions is None:
        config = copy.deepcopy(model.config)
    else:
        config = AutoConfig.for_model(**deepseek.translate(option.architecture))
    config.num_hidden_layers = 1  # families initialise their weights by the depth
    for key in ("layer_types", "mlp_layer_types"):
        if kinds := getattr(config, key, None):
            setattr(config, key, kinds[:1])
    return config


def outer(whole: PreTrainedModel) -> list[nn.Module]:
    """What a language model adds to its headless model."""
    return [part for name, part in whole.named_children() if name != whole.base_model_prefix]


def taken_from(whole: PreTrainedModel) -> LanguageHead:
    """The head of a language model, taken out of it.

    The last matrix leaves its place, so that the rest of the head gives the features.
    """
    decoder: Any = whole.get_output_embeddings()
    weight = None if whole.config.tie_word_embeddings else decoder.weight
    bias: nn.Parameter | None = decoder.bias
    parts = outer(whole)
    if parts == [decoder]:
        return LanguageHead(nn.Identity(), weight, bias)
    for part in parts:
        for module in list(part.modules()):
            for name, child in list(module.named_children()):
                if child is decoder:
                    setattr(module, name, nn.Identity())
                    if "bias" in module._parameters:  # the decoder's, under another name
                        module.register_parameter("bias", None)
    (transform,) = [part for part in parts if part is not decoder]
    return LanguageHead(transform, weight, bias)
