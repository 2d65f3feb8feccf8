"""Checks between backbone, routing, mask schedule and embedding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .predecessors import is_planned
from .problems import Problem, Rule, listed, rule, warning
from .tasks import INSTRUCTIONS, instruction

if TYPE_CHECKING:
    from .experiment import Config
    from .schema.backbone import Backbone

# Families whose pretrained attention sees both sides.
ENCODERS = frozenset(
    (
        "albert",
        "bert",
        "camembert",
        "deberta",
        "deberta-v2",
        "distilbert",
        "electra",
        "jina_embeddings_v3",
        "modernbert",
        "mpnet",
        "nomic_bert",
        "roberta",
        "xlm-roberta",
    )
)
# Families whose MLPs are experts, and those whose positions can be made rotary.
OWN_EXPERTS = frozenset(("deepseek", "deepseek_ocr2_text", "mixtral", "olmoe", "qwen2_moe"))
CONVERTIBLE = ("bert", "xlm-roberta")
# Families with a table of learned positions, and how many of its first rows hold no position.
LEARNED_POSITIONS = {
    "albert": 0, "bert": 0, "distilbert": 0, "electra": 0, "gpt2": 0,
    "camembert": 2, "mpnet": 2, "roberta": 2, "xlm-roberta": 2,
}  # fmt: skip


def positions(backbone: Backbone) -> int | None:
    """How many positions a model has learned, or can tell apart; None where nothing limits them."""
    if backbone.positions is not None:
        return backbone.positions.max_length
    rows = backbone.architecture.get("max_position_embeddings")
    offset = LEARNED_POSITIONS.get(backbone.architecture.get("model_type", ""))
    return rows - offset if rows and offset is not None else None


def depth(config: Config) -> int | None:
    """Layers of the model that is trained, or None where the architecture does not say."""
    layers = config.backbone.architecture.get("num_hidden_layers")
    kept = config.backbone.layers
    return min(layers, kept) if layers and kept else layers or kept


def data_tasks(config: Config) -> list[str]:
    """What the data teaches, as names of training tasks."""
    parts: dict[str, Any] = getattr(config.data, "sources", {})
    options = [part.data for part in parts.values()] or [config.data]
    taught = [task for option in options for task in _taught(option)]
    return list(dict.fromkeys(taught))


def _taught(data: Any) -> list[str]:
    return list(data.tasks) if hasattr(data, "tasks") else [getattr(data, "task", "retrieval")]


def instructions_in_use(config: Config) -> list[str]:
    """Instruction tasks that the training texts carry, in their fixed order."""
    used = {
        instruction(task, is_query=is_query)
        for task in data_tasks(config)
        for is_query in (True, False)
    }
    return [name for name in INSTRUCTIONS if name in used]


def looks_like_path(name: str) -> bool:
    """Whether a model's name can only be a folder: hub names have no more than one slash."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1


@rule("backbone")
def weights_have_a_source(config: Config) -> Problem | None:
    """Pretrained weights and the tokenizer must come from somewhere."""
    backbone = config.backbone
    if backbone.weights == "pretrained" and not backbone.source and not backbone.package:
        return Problem(
            "backbone.weights=pretrained, but backbone.source names nothing to load",
            "set backbone.source=NAME_OR_FOLDER, or backbone.weights=random",
        )
    if not backbone.tokenizer and not backbone.source:
        return Problem(
            "the backbone has no tokenizer: backbone.tokenizer and backbone.source are null",
            "set backbone.tokenizer=builtin",
        )
    for key in ("source", "tokenizer"):
        name = getattr(backbone, key)
        if not name or not looks_like_path(name) or is_planned(name):
            continue
        if not Path(name).expanduser().exists():
            return Problem(
                f"backbone.{key}={name} does not exist", f"mend the path in backbone.{key}"
            )
    return None


@rule("backbone")
def sizes_are_whole(config: Config) -> Problem | None:
    """The architecture is free in its keys, but sizes are sizes."""
    for key, value in config.backbone.architecture.items():
        is_size = key.startswith(("num_", "max_")) or key.endswith("_size")
        if (
            is_size
            and value is not None
            and (isinstance(value, bool) or not isinstance(value, int) or value < 0)
        ):
            return Problem(
                f"backbone.architecture.{key}={value} is no size",
                f"set backbone.architecture.{key} to a whole number",
            )
    return None


@rule("backbone")
def kept_layers_exist(config: Config) -> Problem | None:
    """No more layers can be kept than the backbone has."""
    has, kept = config.backbone.architecture.get("num_hidden_layers"), config.backbone.layers
    if has and kept and kept > has:
        return Problem(
            f"backbone.layers={kept}, but {config.backbone.name} has {has} layers",
            "set backbone.layers=null to keep all",
        )
    return None


@rule("backbone")
def positions_can_be_converted(config: Config) -> Problem | None:
    """Only families with a table of positions have something to replace."""
    family = config.backbone.architecture.get("model_type", "")
    if config.backbone.positions is None or family in CONVERTIBLE:
        return None
    return Problem(
        f"backbone.positions converts {' and '.join(CONVERTIBLE)} only, and "
        f"{config.backbone.name} is of the family {family}",
        "set backbone.positions=null",
    )


@rule("backbone")
def rounded_weights_stay(config: Config) -> Problem | None:
    """Only weights that exist are rounded, and training would move them off the rounded values."""
    backbone, stage, key = config.backbone, config.stage, "backbone.quantization"
    if backbone.quantization == "none":
        return None
    value = f"{key}={backbone.quantization}"
    if backbone.weights == "random":
        what = f"{value} rounds pretrained weights, but backbone.weights=random"
        return Problem(what, f"set {key}=none, or backbone.weights=pretrained")
    if backbone.lora is not None:
        what = f"{value} with backbone.lora: adapters on rounded weights (QLoRA) are not built"
        return Problem(what, f"set {key}=none, or backbone.lora=null")
    if "training" in stage.uses or stage.name == "probe":
        what = f"stage={stage.name} trains the weights that {value} rounds"
        return Problem(what, f"set {key}=none, or stage=zero_shot, which trains nothing")
    return None


@rule("backbone", "routing")
def experts_are_not_routed_again(config: Config) -> Problem | None:
    """What has experts of its own, or trains adapters only, cannot be upcycled."""
    backbone, routing = config.backbone, config.routing.name
    if routing == "dense":
        return None
    if backbone.architecture.get("model_type") in OWN_EXPERTS:
        return Problem(
            f"routing={routing} makes experts of dense MLPs, but {backbone.name} has its own",
            "set routing=dense",
        )
    if backbone.lora is not None:
        return Problem(
            f"backbone.lora trains adapters only, and routing={routing} needs its experts trained",
            "set backbone.lora=null, or routing=dense",
        )
    return None


@rule("backbone", "routing")
def placement_fits_depth(config: Config) -> Problem | None:
    """Every routed layer must exist, and there must be one."""
    placement, layers = getattr(config.routing, "placement", None), depth(config)
    if placement is None or layers is None:
        return None
    if placement == [] or (placement == "every_other" and layers < 2):
        return Problem(
            f"routing.placement={placement} routes none of the {layers} layers",
            "set routing.placement=every, or routing=dense",
        )
    beyond = [layer for layer in placement if isinstance(layer, int) and layer >= layers]
    if beyond:
        return Problem(
            f"routing.placement names layer {beyond[0]}, but the {layers} layers "
            f"are 0 to {layers - 1}",
            f"set routing.placement={listed([str(p) for p in placement if p not in beyond])}"
            if len(beyond) < len(placement)
            else "set routing.placement=every",
        )
    return None


@rule("routing")
def top_k_within_experts(config: Config) -> Problem | None:
    """A token cannot choose more experts than there are."""
    routing: Any = config.routing
    for key in ("top_k", "capacity"):
        if (chosen := getattr(routing, key, 0)) > getattr(routing, "num_experts", chosen):
            return Problem(
                f"routing.{key}={chosen:g} is more than routing.num_experts={routing.num_experts}",
                f"set routing.{key}={routing.num_experts} or less",
            )
    return None


@rule("routing")
def routers_learn(config: Config) -> Problem | None:
    """A weight that is always 1 tells its router nothing."""
    routing: Any = config.routing
    if getattr(routing, "top_k", None) != 1 or routing.renormalize != "topk":
        return None
    if getattr(routing, "balance_coefficient", 0):
        return None
    return warning(
        "routing.top_k=1 with routing.renormalize=topk gives every weight 1: routers do not learn",
        "set routing.renormalize=function_preserving",
    )


@rule("routing")
def balance_has_an_effect(config: Config) -> Problem | None:
    """Where each token meets all experts, they are balanced whatever the router says."""
    routing: Any = config.routing
    if routing.name == "expert_choice" or not hasattr(routing, "num_experts"):
        return None
    if getattr(routing, "top_k", 1) < routing.num_experts:
        return None
    if not getattr(routing, "balance_coefficient", 1):
        return None
    return warning(
        f"each token meets all of routing.num_experts={routing.num_experts}: balancing them "
        "has no effect",
        "use more experts, or fewer per token",
    )


@rule("routing", "embedding")
def token_level_reads_the_instruction(config: Config) -> Problem | None:
    """The ablation of task routing keeps the instruction in the text."""
    if config.routing.name != "token_level" or any(config.embedding.prompts.model_dump().values()):
        return None
    return warning(
        "routing=token_level stands for instructions in the text, but embedding.prompts are empty",
        "set embedding.prompts.search_query='search_query: ' and so on",
    )


@rule("routing", "mask_schedule")
def experts_do_not_look_ahead(config: Config) -> Problem | None:
    """Experts that choose among a sequence's tokens let later ones decide about earlier ones."""
    if config.routing.name != "expert_choice" or config.mask_schedule.name == "bidirectional":
        return None
    return warning(
        f"routing=expert_choice compares all tokens of a text, so mask_schedule="
        f"{config.mask_schedule.name} is never quite causal",
        "choose routing=moe, or mask_schedule=bidirectional",
    )


@rule("routing", "data", "evaluation")
def task_experts_cover_the_tasks(config: Config) -> Problem | None:
    """Each instruction that occurs must have an expert, and experts are numbered from 0."""
    if config.routing.name != "mote":
        return None
    experts = config.routing.experts
    unknown = [name for name in experts if name not in INSTRUCTIONS]
    if unknown:
        from .errors import closest

        near = closest(unknown[0], INSTRUCTIONS) or INSTRUCTIONS
        return Problem(
            f"routing.experts names the unknown instruction task {unknown[0]}",
            f"did you mean {' or '.join(near)}?",
        )
    used = instructions_in_use(config) if config.evaluation.name == "none" else INSTRUCTIONS
    missing = [name for name in used if name not in experts]
    if missing:
        reason = (
            "data and evaluation use it" if len(used) == len(INSTRUCTIONS) else "the data uses it"
        )
        return Problem(
            f"routing.experts has no expert for {missing[0]}, and {reason}",
            f"add +routing.experts.{missing[0]}=0 (tasks may share an expert)",
        )
    skipped = sorted(set(range(max(experts.values()))) - set(experts.values()))
    if skipped:
        return Problem(
            f"routing.experts skips expert {skipped[0]}", "number the experts from 0 without gaps"
        )
    return None


@rule("routing", "data")
def task_experts_are_trained(config: Config) -> Problem | None:
    """An expert whose tasks do not occur in the data stays a copy of the dense layer."""
    if config.routing.name != "mote":
        return None
    experts, used = config.routing.experts, instructions_in_use(config)
    trained = {experts[name] for name in used if name in experts}
    idle = [name for name, expert in experts.items() if expert not in trained]
    if not idle:
        return None
    return warning(
        f"the experts of {', '.join(idle)} see no training example",
        "add their tasks to the data, or let them share a trained expert",
    )


@rule("backbone", "mask_schedule")
def causal_start_is_meant(config: Config) -> Problem | None:
    """A causal mask on a bidirectional encoder is a handicap, not a return to its pretraining."""
    family, schedule = config.backbone.architecture.get("model_type"), config.mask_schedule.name
    if schedule == "bidirectional" or family not in ENCODERS:
        return None
    starts = "is causal throughout" if schedule == "causal" else "starts causal"
    return warning(
        f"mask_schedule={schedule} {starts}, but {config.backbone.name} was never trained so",
        "it is made for causal language models",
    )


def dimensions(config: Config) -> int | None:
    """Dimensions of the model's vectors, as far as it takes no model to know them."""
    embedding = config.embedding
    if embedding.width is not None or embedding.name == "moee":
        return embedding.width
    projection: int | None = embedding.projection
    return projection or config.backbone.architecture.get("hidden_size")


@rule("backbone", "embedding")
def width_within_hidden_size(config: Config) -> Problem | None:
    """Vectors can be cut, not extended."""
    width, projection = config.embedding.width, getattr(config.embedding, "projection", None)
    full = projection or config.backbone.architecture.get("hidden_size")
    if config.embedding.name == "moee":  # routing weights add dimensions
        return None
    if full and width and width > full:
        whose = config.backbone.name if projection is None else "embedding.projection"
        return Problem(
            f"embedding.width={width} is more than the {full} dimensions of {whose}",
            f"set embedding.width={full} or less; null keeps all",
        )
    return None


@rule("backbone", "embedding")
def lengths_within_positions(config: Config) -> Problem | None:
    """A table of learned positions ends somewhere."""
    longest = positions(config.backbone)
    if longest is None:
        return None
    for key in ("query_tokens", "document_tokens"):
        tokens = getattr(config.embedding, key)
        if tokens > longest:
            return Problem(
                f"embedding.{key}={tokens}, but {config.backbone.name} has {longest} positions",
                f"set embedding.{key}={longest} or less",
            )
    return None


RULES: tuple[Rule, ...] = (
    weights_have_a_source,
    sizes_are_whole,
    kept_layers_exist,
    positions_can_be_converted,
    rounded_weights_stay,
    experts_are_not_routed_again,
    placement_fits_depth,
    top_k_within_experts,
    routers_learn,
    balance_has_an_effect,
    token_level_reads_the_instruction,
    experts_do_not_look_ahead,
    task_experts_cover_the_tasks,
    task_experts_are_trained,
    causal_start_is_meant,
    width_within_hidden_size,
    lengths_within_positions,
)
