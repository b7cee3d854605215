"""What mkdocs is told beyond mkdocs.yml: pages that live at the root of the repository, where people look for them."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "reporting.md": "SECURITY.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages; links from them into `docs/` lose that part."""
    for name, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=re.sub(r"\]\((?:\./)?docs/", "](", text)))
    return files
