"""Machine code is kept between runs, and never outlives the sources it was made of."""

from __future__ import annotations

from pathlib import Path

from fedrap_simulation.engine.compiled import code_folder


def test_code_is_kept_in_another_folder_when_any_kernel_changes(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("a = 1\n")
    (tmp_path / "two.py").write_text("b = 1\n")
    first = code_folder(tmp_path)
    assert code_folder(tmp_path) == first
    assert first.parent == tmp_path / "__pycache__"
    (tmp_path / "two.py").write_text("b = 2\n")
    assert code_folder(tmp_path) != first


def test_a_folder_that_the_user_names_is_used(tmp_path: Path) -> None:
    assert code_folder(tmp_path, "/somewhere").parent == Path("/somewhere")
