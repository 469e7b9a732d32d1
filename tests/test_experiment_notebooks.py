"""Every notebook of the package, run in its smallest size as a reader would, through the strict wrapper."""

import nbformat
import pytest

from swiftrl_core.experiments import notebooks

SECONDS = 300


@pytest.mark.slow
@pytest.mark.parametrize("path", notebooks.all_notebooks(), ids=lambda path: path.stem)
def test_a_notebook_runs_and_keeps_figures_tables_and_a_manifest(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"size": "smoke", "output": str(tmp_path / "kept")}
    executed = notebooks.execute(path, tmp_path / "executed.ipynb", given, timeout=SECONDS)
    kept = [file for file in (tmp_path / "kept").rglob("*") if file.is_file()]
    for suffix in (".pdf", ".png", ".csv", ".json"):
        assert any(file.suffix == suffix and file.stat().st_size for file in kept), (
            f"no {suffix} among {kept}"
        )
    pdfs, pngs = ({file.stem for file in kept if file.suffix == suffix} for suffix in (".pdf", ".png"))
    assert pdfs == pngs
    cells = nbformat.read(executed, as_version=4).cells
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs), "the notebook shows no figure"
    warnings = [output.text for output in outputs if output.get("name") == "stderr"]
    assert not warnings, warnings
