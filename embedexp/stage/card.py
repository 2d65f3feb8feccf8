"""The model card: `README.md` in a model's folder, every figure from the run's own files."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.backbone.source import looks_local
from embedexp.backbone.weights import stored_dtype
from embedexp.embedding import build_embedder, files
from embedexp.embedding.loading import read_config
from embedexp.evaluation import ScoreFile
from embedexp.evaluation.table import METRICS
from embedexp.files import write_atomically
from embedexp.routing import parameter_counts
from embedexp.runs import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from embedexp.embedding import Embedder

NAME = "README.md"
SPECIAL = re.compile(r"([\\`*_\[\]#!|<>~&$@]|:(?=//))")
"""What Markdown, tables or HTML in it would take for something else than text."""

VERSIONS = ("embedexp", "torch", "transformers", "sentence-transformers", "mteb")
log = logging.getLogger(__name__)

TRAINED = ("loss", "batching", "negatives", "routing", "mask_schedule", "optimizer", "training")


def text(value: object) -> str:
    """Any value as one line of Markdown text that means nothing but itself."""
    return SPECIAL.sub(r"\\\1", " ".join(str(value).split()))


def code(value: object) -> str:
    """Any value as one line of code, also in a table and with backticks in it."""
    line = " ".join(str(value).splitlines()).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if line.startswith(("`", " ")) or line.endswith(("`", " ")) else ""
    return f"{fence}{pad}{line}{pad}{fence}" if line else "(none)"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table of cells that are Markdown already."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def run_of(folder: Path) -> RunDirectory | None:
    """The run whose model lies in a folder; None if no run has made it."""
    parent = folder.parent
    if folder.name == "model" and (parent / "config.yaml").is_file():
        return RunDirectory(parent)
    return None


def leave(directory: RunDirectory) -> None:
    """Write the card of a run that is about to finish, with the scores that it has by now.

    A card is no reason to fail a run: what goes wrong is in the log.
    """
    if not (directory.model / files.OURS).is_file():
        return
    try:
        write(directory.model, format="sentence_transformers", run=directory)
    except Exception:
        log.warning("the model card could not be written", exc_info=True)


def write(folder: Path, *, format: str, run: RunDirectory | None) -> None:
    """Write the card of a model into its folder; what no run has recorded is left out."""
    write_atomically(folder / NAME, render(folder, format=format, run=run))


def render(folder: Path, *, format: str, run: RunDirectory | None) -> str:
    """The card of the model in a folder of ours, as Markdown with the hub's YAML header."""
    embedder = build_embedder(read_config(folder), device="meta")  # sizes, without weights
    plain = (folder / "config.json").is_file()
    name = embedder.config.backbone.name if run is None else run.name
    parts = [
        header(embedder, format, run),
        [f"# {text(name)}", ""],
        loading(embedder, format, plain=plain),
        model(embedder, stored_dtype(folder)),
        [] if run is None else scores(run),
        [] if run is None else training(run),
        [] if run is None else provenance(run),
    ]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def header(embedder: Embedder, format: str, run: RunDirectory | None) -> list[str]:
    """Metadata that the hub reads."""
    import yaml

    library = "transformers" if format == "huggingface" else "sentence-transformers"
    pipeline = "feature-extraction" if format == "huggingface" else "sentence-similarity"
    tags = ["embedexp", "feature-extraction", "sentence-similarity"]
    if embedder.config.routing.name != "dense":
        tags.append("mixture-of-experts")
    if format == "onnx":
        tags.append("onnx")
    content: dict[str, Any] = {"library_name": library, "pipeline_tag": pipeline, "tags": tags}
    if run is not None and (results := ScoreFile(run.evaluation).read("after")):
        content["model-index"] = [
            {
                "name": run.name,
                "results": [
                    {
                        "task": {"type": score.type},
                        "dataset": {"name": score.task, "type": score.task},
                        "metrics": [{"type": score.metric, "value": score.value}],
                    }
                    for score in results
                ],
            }
        ]
    dumped = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    return ["---", dumped.rstrip(), "---", ""]


def loading(embedder: Embedder, format: str, *, plain: bool) -> list[str]:
    """How to load the folder, in the words of the libraries that do."""
    lines = ["## Loading", "", "```python", "import embedexp", ""]
    lines += ["embedder = embedexp.load(path)"]
    lines += ['vectors = embedder.encode(["a text"], task="search_document")', "```", ""]
    if format in ("sentence_transformers", "onnx"):
        more = "" if plain else ", trust_remote_code=True"
        lines += ["```python", "from sentence_transformers import SentenceTransformer", ""]
        lines += [f"model = SentenceTransformer(path{more})"]
        lines += ['vectors = model.encode(["a text"])', "```", ""]
        if not plain:
            lines += [
                "sentence-transformers finds the model's class in the installed package embedexp "
                "and asks for `trust_remote_code=True` because it is not one of its own. `encode` "
                'takes `task="search_query"`, `"search_document"`, `"classification"` or '
                '`"clustering"`.',
                "",
            ]
    if format == "onnx":
        lines += [
            "`onnx/model.onnx` takes `input_ids` and `attention_mask` and gives "
            "`last_hidden_state` and `sentence_embedding`, which is pooled"
            + (" and normalised." if embedder.config.embedding.normalize else "."),
            "",
        ]
    if format == "huggingface":
        option = embedder.config.embedding
        lines += ["```python", "from transformers import AutoModel, AutoTokenizer", ""]
        lines += ["model = AutoModel.from_pretrained(path)"]
        lines += ["tokenizer = AutoTokenizer.from_pretrained(path)", "```", ""]
        lines += [
            f"`AutoModel` gives hidden states; the vector of a text is their `{option.name}` "
            f"pooling, its first {embedder.width} dimensions"
            + (", normalised." if option.normalize else "."),
            "",
        ]
    if format == "nomic":
        lines += [
            "Tensors and `config.json` are named as in Nomic's published models. Programs that "
            "run the code named there need `trust_remote_code=True`; transformers' own "
            "`nomic_bert` has no experts, so without it a model with experts is not loaded "
            "correctly.",
            "",
        ]
    return lines


def model(embedder: Embedder, dtype: str) -> list[str]:
    """Sizes, lengths and prompts."""
    config, counts = embedder.config, parameter_counts(embedder)
    option = config.embedding
    rows = [
        ("backbone", code(config.backbone.name)),
        ("family", code(embedder.model.config.model_type)),
        ("parameters", f"{counts['total']:,}"),
        ("active per token", f"{counts['active']:,}"),
        ("of these in embedding tables", f"{counts['embedding']:,}"),
        ("type of the weights", code(dtype)),
        ("dimensions", f"{embedder.width}"),
        ("normalised", "yes" if option.normalize else "no"),
        ("pooling", code(option.name)),
        ("mask", code(config.mask_schedule.name)),
        ("routing", code(_inline(config.routing.model_dump()))),
        ("longest query", f"{option.query_tokens} tokens"),
        ("longest document", f"{option.document_tokens} tokens"),
    ]
    prompts = option.prompts.model_dump()
    used = [(code(task), code(prompt) if prompt else "none") for task, prompt in prompts.items()]
    return [
        "## Model",
        "",
        *table(("", ""), rows),
        "",
        *table(("task", "prompt"), used),
        "",
    ]


def scores(run: RunDirectory) -> list[str]:
    """Scores before and after training, as the run measured them."""
    file = ScoreFile(run.evaluation)
    before = {score.task: score.value for score in file.read("before")}
    rows = []
    for score in file.read("after"):
        was = before.get(score.task)
        rows.append(
            (
                text(score.task),
                text(score.type),
                text(METRICS.get(score.metric, score.metric)),
                "" if was is None else f"{was:.4f}",
                f"{score.value:.4f}",
            )
        )
    if not rows:
        return []
    return ["## Scores", "", *table(("task", "type", "metric", "before", "after"), rows), ""]


def training(run: RunDirectory) -> list[str]:
    """What the model was trained on and how, from the frozen config."""
    config = run.config
    lines = [f"## Training ({text(config.stage.name)})", ""]
    uses = config.stage.uses
    if "training" in uses:
        steps, size = config.training.steps, config.batching.size
        lines += [f"{steps:,} steps of {size:,}, seed {config.seed}.", ""]
    groups = [name for name in TRAINED if name in uses]
    if "data" in uses:
        groups.insert(0, "data")
    rows = [(code(name), code(_inline(getattr(config, name).model_dump()))) for name in groups]
    if rows:
        lines += [*table(("group", "options"), rows), ""]
    return lines if len(lines) > 2 else []


def provenance(run: RunDirectory) -> list[str]:
    """Where the model comes from: the run, its parents, code and versions."""
    config, environment = run.config, _json(run.environment_file)
    rows = [("run", code(run.name)), ("signature", code(run.signature))]
    if fingerprint := environment.get("data_fingerprint"):
        rows.append(("data (SHA-256)", code(fingerprint)))
    rows += [(text(key), code(_without_folders(path))) for key, path in parents(config)]
    merged = _json(run.path / "merge.json")
    rows += [row for each in merged.get("inputs", []) for row in _merged(each, merged)]
    source = environment.get("code") or {}
    if commit := source.get("commit"):
        rows.append(("code", code(commit) + (" with changes" if source.get("dirty") else "")))
    packages = environment.get("packages", {})
    rows += [(text(name), text(packages[name])) for name in VERSIONS if name in packages]
    if python := environment.get("python"):
        rows.append(("Python", text(python)))
    notes = [line for note in merged.get("notes", []) for line in (text(note), "")]
    for each in merged.get("inputs", []):
        if renumbered := each.get("experts"):
            path = code(_without_folders(each["path"]))
            notes += [f"Experts of {path} were renumbered before merging:", ""]
            notes += [*(f"- {text(layer)}: {order}" for layer, order in renumbered.items()), ""]
    return ["## Provenance", "", *table(("", ""), rows), "", *notes]


def _merged(each: dict[str, Any], merged: dict[str, Any]) -> list[tuple[str, str]]:
    """The row of one model that was merged: which run, what content, with which weight."""
    option, share = merged.get("option", {}), each.get("weight")
    keys = [
        f"{key}={value}"
        for key, value in option.items()
        if key not in ("name", "inputs", "weights", "base", "experts") and value is not None
    ]
    how = " ".join(["merged by", option.get("name", "merge"), *keys])
    parts = [code(_without_folders(each["path"]))]
    parts += [code(value) for value in (each.get("signature"), each["content"][:16]) if value]
    return [
        (
            text(f"{how}: {each.get('role', 'input')}"),
            " ".join(parts) + ("" if share is None else f", weight {share:.4g}"),
        )
    ]


def parents(config: Any) -> list[tuple[str, str]]:
    """Models that the run started from or asked, by key; merged ones are in `merge.json`."""
    uses, found = config.stage.uses, []
    if "backbone" in uses and config.backbone.weights == "pretrained" and config.backbone.source:
        found.append(("backbone.source", str(config.backbone.source)))
    stage = config.stage.model_dump()
    found += [(f"stage.{key}", str(stage[key])) for key in ("model", "teacher") if stage.get(key)]
    return found


def _without_folders(value: Any) -> Any:
    """Names of runs, files and models, without the folders of the machine where they lay."""
    if isinstance(value, dict):
        return {key: _without_folders(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_folders(entry) for entry in value]
    if isinstance(value, str) and looks_local(value):
        path = Path(value)
        return path.parent.name if path.name == "model" else path.name
    return value


def _inline(options: dict[str, Any]) -> str:
    """Options in one line, the name first, without what is null."""
    options = _without_folders(options)
    shown = {key: value for key, value in options.items() if value is not None and key != "name"}
    rest = ", ".join(f"{key}={json.dumps(value, default=str)}" for key, value in shown.items())
    return f"{options.get('name', '')}: {rest}" if rest else str(options.get("name", ""))


def _json(path: Path) -> dict[str, Any]:
    try:
        found = files.read_json(path)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
