import pytest

from droptics.files import replacing, write_text


def _break_off(path):
    with replacing(path) as partial:
        partial.write_text("new, unfin")
        raise RuntimeError("half way")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "page.html"
    write_text(path, "old")
    with pytest.raises(RuntimeError, match="half way"):
        _break_off(path)
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"
    assert [item.name for item in path.parent.iterdir()] == ["page.html"], "nothing is left beside it"
    plain = tmp_path / "plain"
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode, "readable by whom the user's settings allow"
