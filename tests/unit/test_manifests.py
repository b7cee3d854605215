"""The manifests of the documentation are what Kubernetes takes, by its own schemas."""

from __future__ import annotations

import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "spark-cluster.md"
VERSION = "1.31"


def manifests() -> list[dict[str, Any]]:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("manifest", manifests(), ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_a_manifest_is_valid(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_the_executors_template_is_a_pod_and_names_fit() -> None:
    by_kind = {each["kind"]: each for each in manifests()}
    template = yaml.safe_load(by_kind["ConfigMap"]["data"]["executor.yaml"])
    kubernetes_validate.validate({**template, "metadata": {"name": "x"}}, VERSION, strict=True)
    pod = by_kind["Job"]["spec"]["template"]
    assert by_kind["Service"]["spec"]["selector"] == pod["metadata"]["labels"]
    assert pod["spec"]["serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"]
    settings = dict(each.removeprefix("--conf=").split("=", 1) for each in pod["spec"]["containers"][0]["args"][1:-1])
    ports = [str(each["port"]) for each in by_kind["Service"]["spec"]["ports"]]
    assert [settings["spark.driver.port"], settings["spark.driver.blockManager.port"]] == ports
    assert settings["spark.driver.host"] == f"{by_kind['Service']['metadata']['name']}.streams.svc"
    assert settings["spark.kubernetes.executor.podTemplateContainerName"] == template["spec"]["containers"][0]["name"]


def test_a_manifest_that_is_wrong_is_noticed() -> None:
    (job,) = (each for each in manifests() if each["kind"] == "Job")
    job["spec"]["template"]["spec"]["restartPolicie"] = "Never"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, VERSION, strict=True)
