"""Event files hold what PyTorch's writer would have written, as TensorBoard's own reader finds it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.oracle
torch = pytest.importorskip("torch")
pytest.importorskip("tensorboard")

import adjoint  # noqa: E402  after what may skip the file

rng = np.random.default_rng(0)
PIXELS, BATCH, NUMBERS = rng.random((3, 8, 8)), rng.random((10, 1, 4, 4)), rng.standard_normal(500)
POINTS, TRUTH, CHANCES = rng.random((1, 5, 3)).astype("f"), rng.integers(0, 2, 200), rng.random(200)

WRITES: dict[str, Callable[[Any, Any], object]] = {
    "scalar": lambda w, t: w.add_scalar("loss/train", t.tensor(1.5, requires_grad=True), 3, walltime=7.0),
    "scalar of a numpy number": lambda w, t: w.add_scalar("loss", np.float32(0.1), np.int64(2)),
    "scalar as a tensor": lambda w, t: w.add_scalar("loss", t.tensor([2.0]), 1, new_style=True),
    "scalar in double": lambda w, t: w.add_scalar("loss", 0.1, 1, new_style=True, double_precision=True),
    "scalars": lambda w, t: w.add_scalars("both/of", {"a": 1, "b": t.tensor(2.0)}, 4),
    "tensor": lambda w, t: w.add_tensor("x", t.arange(6.0).reshape(2, 3)),
    "histogram": lambda w, t: w.add_histogram("h", t.tensor(NUMBERS), 0),
    "histogram of zeros": lambda w, t: w.add_histogram("h", t.zeros(3), 0),
    "histogram of integers": lambda w, t: w.add_histogram("h", t.arange(5), 0, bins="auto"),
    "histogram of few bins": lambda w, t: w.add_histogram("h", np.array([-1.0, 5, 1e-20, 7]), 0, max_bins=30),
    "histogram by edges": lambda w, t: w.add_histogram("h", t.tensor(NUMBERS), 0, bins=[-9.0, 0.0, 1.0, 2.0, 5.0]),
    "histogram by a rule": lambda w, t: w.add_histogram("h", t.tensor(NUMBERS), bins="fd"),
    "histogram that is counted": lambda w, t: w.add_histogram_raw("h", 0, 2, 3, 3, 5, [1.0, 2.0], [1, 2]),
    "image": lambda w, t: w.add_image("i", t.tensor(PIXELS), 0),
    "gray image": lambda w, t: w.add_image("i", t.tensor(PIXELS[0]), 0, dataformats="HW"),
    "image of bytes": lambda w, t: w.add_image("i", (PIXELS * 255).astype("u1").transpose(1, 2, 0), dataformats="HWC"),
    "batch of images": lambda w, t: w.add_images("i", t.tensor(BATCH), 0),
    "boxes": lambda w, t: w.add_image_with_boxes("i", t.tensor(PIXELS), t.tensor([[1.0, 2, 5, 6]])),
    "text": lambda w, t: w.add_text("t", "a *word*", 1),
    "audio": lambda w, t: w.add_audio("a", t.tensor(NUMBERS[None] / 4), 1, sample_rate=8000),
    "pr curve": lambda w, t: w.add_pr_curve("p", t.tensor(TRUTH), t.tensor(CHANCES), 0),
    "pr curve of few thresholds": lambda w, t: w.add_pr_curve("p", TRUTH, CHANCES, 0, 20, weights=CHANCES[::-1]),
    "pr curve that is counted": lambda w, t: w.add_pr_curve_raw("p", *POINTS[0], POINTS[0, 0], num_thresholds=3),
    "charts": lambda w, t: w.add_custom_scalars({"c": {"x": ["Multiline", ["a", "b"]], "y": ["Margin", list("abc")]}}),
    "one chart": lambda w, t: w.add_custom_scalars_multilinechart(["a", "b"], "c", "x"),
    "margins": lambda w, t: w.add_custom_scalars_marginchart(["a", "b", "c"]),
    "mesh": lambda w, t: w.add_mesh("m", t.tensor(POINTS), t.ones(1, 5, 3), t.zeros(1, 2, 3), {"camera": 1}),
    "hyperparameters": lambda w, t: w.add_hparams({"lr": 0.1, "n": 2, "s": "x"}, {"accuracy": 0.5}, None, "run", 3),
    "domains": lambda w, t: w.add_hparams({"s": "x"}, {"a": 1}, {"s": ["x", "y"]}, "run"),
    "purge": lambda w, t: w.close(),
}


def read(folder: Path) -> list[Any]:
    """Return each folder's values, in order: tag, step, and the message; tensors as arrays."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
    from tensorboard.util.tensor_util import make_ndarray

    found = []
    for path in sorted(folder.rglob("events*"), key=lambda path: path.parent):
        for event in map(Event.FromString, RawEventFileLoader(str(path)).Load()):
            for value in event.summary.value:
                tensor = make_ndarray(value.tensor).tolist() if value.HasField("tensor") else None
                kind = value.tensor.dtype
                if value.metadata.plugin_data.plugin_name == "hparams":  # as text, whose order is that of the keys
                    kind = str(HParamsPluginData.FromString(value.metadata.plugin_data.content))
                    value.metadata.plugin_data.content = b""
                value.ClearField("tensor")
                place = str(path.parent.relative_to(folder))
                found.append((place, value.tag, event.step, kind, tensor, value.SerializeToString(deterministic=True)))
            if event.HasField("session_log"):
                found.append((event.step, event.session_log.status))
    return found


@pytest.mark.parametrize("what", WRITES)
def test_the_same_events_are_written(what: str, tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter as TheirWriter

    from adjoint.utils.tensorboard import SummaryWriter

    files = []
    for writer_class, library in ((SummaryWriter, adjoint), (TheirWriter, torch)):
        folder = tmp_path / library.__name__
        with writer_class(folder, purge_step=5 if what == "purge" else None) as writer:
            WRITES[what](writer, library)
        files.append(read(folder))
    assert files[0] == files[1]
    assert files[0]


def test_embeddings_are_written_as_tables_and_a_configuration(tmp_path: Path) -> None:
    from google.protobuf.text_format import Parse
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
    from torch.utils.tensorboard import SummaryWriter as TheirWriter

    from adjoint.utils.tensorboard import SummaryWriter

    found: list[Any] = []
    for writer_class, library in ((SummaryWriter, adjoint), (TheirWriter, torch)):
        folder = tmp_path / library.__name__
        with writer_class(folder) as writer:
            points = library.tensor(POINTS[0])
            writer.add_embedding(points, list("abcde"), library.tensor(BATCH[:5].repeat(3, 1)), 2)
            writer.add_embedding(points[:2], [["a", 1], ["b", 2]], tag="x/y", metadata_header=["name", "value"])
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*sv")}
        config = Parse((folder / "projector_config.pbtxt").read_text(), ProjectorConfig())
        found.append((files, str(config), len(list(folder.rglob("sprite.png")))))
    assert found[0] == found[1]


def test_bool_hyperparameters_stay_bools(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams.api_pb2 import DATA_TYPE_BOOL
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    from adjoint.utils.tensorboard.summary import hparams

    about, start, _ = hparams({"flag": True}, {})
    parsed = [HParamsPluginData.FromString(s.value[0].metadata.plugin_data.content) for s in (about, start)]
    assert parsed[0].experiment.hparam_infos[0].type == DATA_TYPE_BOOL
    assert parsed[1].session_start_info.hparams["flag"].bool_value is True


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda w: w.add_histogram("h", []), "there are no values"),
        (lambda w: w.add_histogram("h", [1.0, float("nan")]), "NaN or infinite"),
        (lambda w: w.add_scalar("s", adjoint.ones(3)), r"this value has shape \(3,\)"),
        (lambda w: w.add_histogram_raw("h", 0, 1, 1, 1, 1, [1.0], []), "1 bucket_limits and 0 bucket_counts"),
        (lambda w: w.add_image_with_boxes("i", PIXELS, [[0, 0, 1, 1]], labels=["a", "b"]), "2 labels and 1 box"),
        (lambda w: w.add_video("v", PIXELS), r"expected \(N, T, C, H, W\)"),
        (lambda w: w.add_embedding(POINTS[0], ["a"]), "metadata has 1 entry, and mat 5 rows"),
        (lambda w: w.add_hparams({"x": [1, 2]}, {}), "'x' is a list"),
        (lambda w: w.add_hparams({"x": 1}, {}, {"y": [1]}), "'y'"),
        (lambda w: w.add_custom_scalars_marginchart(["a"]), "three tags"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    write: Callable[[Any], object], message: str, tmp_path: Path
) -> None:
    from adjoint.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer, pytest.raises(ValueError, match=message):
        write(writer)
    assert read(tmp_path) == []


def test_videos_are_animations_and_images_can_be_scaled(tmp_path: Path) -> None:
    import io

    from PIL import Image

    from adjoint.utils.tensorboard.summary import image_boxes, video

    picture = image_boxes("b", PIXELS, [[1.0, 1, 4, 4]], rescale=2).value[0].image
    assert (picture.height, picture.width) == Image.open(io.BytesIO(picture.encoded_image_string)).size == (16, 16)
    made = video("v", rng.random((2, 5, 3, 8, 8)), fps=10).value[0].image
    animation = Image.open(io.BytesIO(made.encoded_image_string))
    assert (animation.n_frames, animation.size, animation.info["duration"]) == (5, (16, 8), 100)


def test_a_closed_writer_opens_a_new_file(tmp_path: Path) -> None:
    from adjoint.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(tmp_path)
    writer.add_scalar("a", 1.0)
    writer.close()
    writer.add_scalar("b", 2.0)
    writer.close()
    assert {tag for _, tag, *_ in read(tmp_path)} == {"a", "b"}
