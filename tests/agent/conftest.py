"""Skills on disk, made for a test."""

import pytest


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "skills"
    folder.mkdir()
    return folder


@pytest.fixture
def put(root):
    """Write a skill's SKILL.md, and files beside it."""

    def write(folder, front="", body="Do it.", *, below=root, **files):
        place = below / folder
        place.mkdir(parents=True, exist_ok=True)
        name = folder.split("/")[-1]
        front = front if "name:" in front else f"name: {name}\ndescription: About {name}.\n{front}"
        (place / "SKILL.md").write_text(f"---\n{front}\n---\n{body}\n", encoding="utf-8")
        for path, text in files.items():
            (place / path.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
            (place / path.replace("__", "/")).write_text(text, encoding="utf-8")
        return place

    return write
