"""What belongs to a repository besides its code: workflows, hooks, groups of packages, templates."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
yaml = pytest.importorskip("yaml")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def loaded(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_least_rights_and_can_be_started_by_hand(path):
    workflow = loaded(path)
    assert "workflow_dispatch" in workflow[True], "yaml reads `on` as true"
    assert workflow["permissions"] in ({}, {"contents": "read"})
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert re.search(r"@\S+$", step.get("uses", "x@1")), step
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_a_release_is_published_without_a_password():
    jobs = loaded(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert jobs["publish"]["permissions"]["id-token"] == "write"
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"
    assert "password" not in str(jobs)
    assert "secrets." not in str(jobs)


def test_hooks_use_the_pinned_linter():
    """Two versions of one formatter would undo each other's work."""
    hooks = {
        repo["repo"].rsplit("/", 1)[-1]: repo for repo in loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    }
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert hooks["ruff-pre-commit"]["rev"] == f"v{pins['ruff']}"


def test_groups_of_packages_name_extras_that_exist():
    found = project()
    extras = set(found["project"]["optional-dependencies"])
    for requirement in found["dependency-groups"]["dev"]:
        name, asked = re.fullmatch(r"([\w-]+)\[(.*)\]", requirement).groups()
        assert name == found["project"]["name"]
        assert set(asked.split(",")) <= extras


def test_what_a_reviewer_asks_for_and_is_declined_has_a_reason():
    for check, reason in project()["tool"]["repo-review"]["ignore"].items():
        assert re.fullmatch(r"[A-Z]{2,3}\d{3}", check)
        assert len(reason.split()) >= 4


def test_the_version_is_the_same_everywhere():
    import metasym

    citation = loaded(ROOT / "CITATION.cff")
    assert citation["version"] == metasym.__version__
    assert f"## {metasym.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md"])
def test_links_between_these_pages_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target
