"""Data sets to and from Minari: nothing is lost on the way, and what Minari cannot give is told."""

import numpy as np
import pytest

from swiftrl_core.cli import main
from swiftrl_core.cli import minari as minari_files
from swiftrl_core.data import collect, load
from swiftrl_core.data.environments import resolve
from swiftrl_core.util.errors import SwiftRLError

minari = pytest.importorskip("minari", reason="the extra `minari` is not installed")
pytest.importorskip("h5py", reason="the extra `minari` is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:minari")  # it asks for an author


@pytest.fixture(autouse=True)
def archive(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "archive"))
    return tmp_path / "archive"


@pytest.mark.parametrize("environment", ["frozenlake", "taxi", "cliffwalking"])
def test_a_data_set_comes_back_row_for_row(environment):
    dataset = collect(environment, 700, 3)
    expected = minari_files.save(dataset, f"swiftrl/{environment}-v0")
    assert expected.episodes == dataset.episode[-1] + 1
    back = minari_files.load(f"swiftrl/{environment}-v0")
    assert back.sha256 == dataset.sha256
    for name in ("environment", "env_id", "kwargs", "step_limit", "reward_range", "terminal_states"):
        assert back.metadata[name] == dataset.metadata[name], name


def test_arguments_of_the_environment_come_back(tmp_path):
    dataset = collect(resolve("frozenlake", is_slippery=False), 100, 0)
    minari_files.save(dataset, "still-v2")
    back = minari_files.load("still-v2")
    assert back.metadata["kwargs"] == {"is_slippery": False}
    assert back.sha256 == dataset.sha256


def test_an_estimate_is_of_the_right_size(archive):
    dataset = collect("frozenlake", 1_500, 0)
    expected = minari_files.save(dataset, "lake-v0")
    size = sum(path.stat().st_size for path in archive.rglob("*") if path.is_file())
    assert size / 1.5 < expected.bytes < size * 1.5


def test_what_minari_does_not_have_is_told():
    with pytest.raises(SwiftRLError, match="no data set 'none/such-v0' on this machine"):
        minari_files.load("none/such-v0")
    with pytest.raises(SwiftRLError, match="is not a Minari id"):
        minari_files.save(collect("frozenlake", 10, 0), "no version")
    minari_files.save(collect("frozenlake", 10, 0), "twice-v0")
    with pytest.raises(SwiftRLError, match="has a data set twice-v0 already"):
        minari_files.save(collect("frozenlake", 10, 0), "twice-v0")
    with pytest.raises(SwiftRLError, match="16 states and 4 actions, but Taxi"):
        minari_files.load("twice-v0", "taxi")


def test_half_an_export_is_removed(archive, monkeypatch):
    def break_off(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("minari.dataset._storages.hdf5_storage.HDF5Storage.update_episodes", break_off)
    with pytest.raises(KeyboardInterrupt):
        minari_files.save(collect("frozenlake", 100, 0), "half-v0")
    assert not list(archive.rglob("half-v0"))


def test_spaces_that_are_not_discrete_are_refused():
    from gymnasium.spaces import Box, Discrete
    from minari.data_collector.episode_buffer import EpisodeBuffer

    episode = EpisodeBuffer(
        id=0,
        observations=np.zeros((2, 1), np.float32),
        actions=[0],
        rewards=[0.0],
        terminations=[True],
        truncations=[False],
    )
    minari.create_dataset_from_buffers(
        "boxed-v0", [episode], observation_space=Box(0, 1, (1,)), action_space=Discrete(2), data_format="hdf5"
    )
    with pytest.raises(SwiftRLError, match=r"observation space Box.*needs Discrete"):
        minari_files.load("boxed-v0", "frozenlake")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("minari:lake-v0", "lake-v0"),
        ("lake/random-v0", "lake/random-v0"),
        ("D4RL/door/human-v2", "D4RL/door/human-v2"),
        ("lake.parquet", None),
        ("data/lake.txt", None),
        ("lake-v0.parquet", None),
    ],
)
def test_a_name_says_whether_it_is_minari_s(text, found):
    assert minari_files.named(text) == found


def test_a_file_with_such_a_name_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake-v0").write_text("")
    assert minari_files.named("lake-v0") is None
    assert minari_files.named("minari:lake-v0") == "lake-v0"


def test_the_command_converts_and_trains(tmp_path, capsys):
    lake = str(tmp_path / "lake.parquet")
    assert main(["collect", "--env", "frozenlake", "--transitions", "600", "--out", lake]) == 0
    assert main(["convert", lake, "minari:lake/random-v0"]) == 0
    assert "Minari will take" in capsys.readouterr().out
    assert main(["convert", "minari:lake/random-v0", str(tmp_path / "back.parquet")]) == 0
    assert load(tmp_path / "back.parquet").sha256 == load(lake).sha256
    train = ["train", "--data", "lake/random-v0", "--backend", "cpu", "--dpus", "4", "--episodes", "2"]
    assert main([*train, "--out", str(tmp_path / "run")]) == 0
    assert main([*train[:2], "lake/other-v0", *train[3:], "--out", str(tmp_path / "run")]) == 1
    assert "no data set 'lake/other-v0'" in capsys.readouterr().err


def test_a_large_export_is_asked_about_first(tmp_path, capsys, monkeypatch):
    lake = str(tmp_path / "lake.parquet")
    assert main(["collect", "--env", "frozenlake", "--transitions", "600", "--out", lake]) == 0
    monkeypatch.setattr(minari_files, "LARGE_BYTES", 100_000)
    assert main(["convert", lake, "minari:lake-v0"]) == 1
    assert "pass --large" in capsys.readouterr().err
    assert main(["convert", lake, "minari:lake-v0", "--large"]) == 0
