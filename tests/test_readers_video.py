"""Videos: timestamps, selection, chapters, damage, rotation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import av
import numpy as np
import pytest
from videos import number_of, write_video

from birdlab.errors import DataError
from birdlab.readers.chapters import Clip, place
from birdlab.readers.pixels import iter_frames
from birdlab.readers.video import decode, read_videos, select
from birdlab.readers.video_info import conversion_command, read_info
from birdlab.recipe import Media

UNEVEN = [0, 40, 100, 110, 500, 540, 1000, 1200, 1300, 1302]
EVEN = list(range(0, 1000, 40))


def test_times_are_the_containers_not_index_by_rate(tmp_path: Path) -> None:
    info = read_info(write_video(tmp_path / "a.mp4", UNEVEN))
    assert info.codec == "h264"
    assert (info.width_px, info.height_px) == (64, 48)
    assert np.allclose(info.times_s * 1000, UNEVEN, atol=0.1)


def test_frames_come_in_presentation_order_whatever_is_asked(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", UNEVEN)
    assert [number_of(p) for _, p in decode(path, range(10))] == list(range(10))
    assert [(i, number_of(p)) for i, p in decode(path, [3, 7, 9])] == [(3, 3), (7, 7), (9, 9)]


def test_far_frames_are_found_by_a_jump(tmp_path: Path) -> None:
    times = [i * 500 for i in range(28)]
    path = write_video(tmp_path / "long.mp4", times, gop=4)
    info = read_info(path)
    wanted = [0, 1, 11, 26, 27]
    found = list(decode(path, wanted, times=info.times_s[wanted].tolist()))
    assert [(i, number_of(p)) for i, p in found] == [(i, i) for i in wanted]
    sparse = write_video(tmp_path / "one_key.mp4", times)
    assert [number_of(p) for _, p in decode(sparse, wanted)] == wanted


def test_a_frame_that_is_not_there_is_an_error_in_its_place(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", EVEN[:5])
    found = list(decode(path, [1, 99]))
    assert number_of(found[0][1]) == 1
    assert isinstance(found[1][1], DataError)
    gone = list(decode(tmp_path / "gone.mp4", [0, 1]))
    assert [i for i, _ in gone] == [0, 1]
    assert all("no such file" in str(error) for _, error in gone)


@pytest.mark.parametrize(("angle", "corner"), [(-90, (0, -1)), (90, (-1, 0)), (180, (-1, -1))])
def test_rotation_is_applied(tmp_path: Path, angle: int, corner: tuple[int, int]) -> None:
    # The white corner is stored at the top left; a container angle of -90 shows the picture turned clockwise.
    path = write_video(tmp_path / "turned.mp4", EVEN[:4], rotation=angle)
    info = read_info(path)
    ((_, image),) = decode(path, [2])
    assert image.shape == (info.height_px, info.width_px, 3)
    assert image.shape[:2] == ((64, 48) if angle % 180 else (48, 64))
    rows, columns = (slice(2, 8) if c == 0 else slice(-8, -2) for c in corner)
    assert image[rows, columns].mean() > 240


def test_selection_by_stride_rate_and_part() -> None:
    times = np.arange(0, 10, 0.04)
    assert select(times, 0.0, Media(videos="*", stride=50)).tolist() == [0, 50, 100, 150, 200]
    assert select(times, 0.0, Media(videos="*", rate=0.5)).tolist() == [0, 50, 100, 150, 200]
    assert select(times, 0.0, Media(videos="*", rate=1, use="00:02-00:04")).tolist() == [50, 75]
    # The second chapter starts at 7 s: only its first three seconds lie in the part, and the clock runs on.
    assert select(times, 7.0, Media(videos="*", rate=1, use="00:00–00:10")).tolist() == [0, 25, 50]
    assert len(select(times, 0.0, Media(videos="*"))) == 250
    # 29.97 Hz: one frame a second, at or after the second.
    odd = np.arange(300) * 1001 / 30000
    taken = odd[select(odd, 0.0, Media(videos="*", rate=1))]
    assert len(taken) == 10 and np.all(abs(taken - np.arange(10) * 1.001) < 1e-9)


def test_gopro_chapters_are_one_session_on_one_clock(tmp_path: Path) -> None:
    write_video(tmp_path / "GX010012.MP4", EVEN, created="2024-05-01T08:00:00Z")
    write_video(tmp_path / "GX020012.MP4", EVEN, created="2024-05-01T08:00:11Z")
    write_video(tmp_path / "GX010013.MP4", EVEN, created="2024-05-01T09:00:00Z")
    media, frames, notices = read_videos(Media(videos="*.mp4", stride=5), tmp_path, "nest")
    assert media["video_id"].to_list() == ["GX010012", "GX010013", "GX010012"]
    assert media["start_s"].to_list() == [0.0, 0.0, 11.0]
    assert media["recorded_at"].to_list()[2] == datetime(2024, 5, 1, 8, 0, 11, tzinfo=UTC)
    assert frames.filter(frames["media_id"] == "GX020012.MP4")["time_s"].to_list() == pytest.approx(
        [11, 11.2, 11.4, 11.6, 11.8]
    )
    codes = [n.code for n in notices]
    assert codes.count("chapters_joined") == 1 and codes.count("clock_gap") == 1
    assert "10 s without recording" in next(n.message for n in notices if n.code == "clock_gap")
    pictures = list(iter_frames(frames, media))
    assert [i for i, _ in pictures] == frames["frame_id"].to_list()
    assert [number_of(p) for _, p in pictures] == [0, 5, 10, 15, 20] * 3


def _clips(*specs: tuple[str, int | None, float]) -> list[Clip]:
    zero = datetime(2024, 5, 1, 8, tzinfo=UTC)
    return [Clip(p, None if at is None else zero + timedelta(seconds=at), d) for p, at, d in specs]


def _sessions(clips: list[Clip], **more) -> tuple[list[str], list[float], list[str]]:
    none = [None] * len(clips)
    placed, notices = place(clips, sessions=none, cameras=none, **more)
    return [p.session for p in placed], [p.start_s for p in placed], [n.code for n in notices]


def test_numbered_files_are_joined_only_with_evidence() -> None:
    # Two nests, no times: two recordings, and a notice.
    names, starts, codes = _sessions(_clips(("nest_01.mp4", None, 60), ("nest_02.mp4", None, 60)))
    assert (names, starts, codes) == (["nest_01", "nest_02"], [0, 0], ["chapters_unsure"])
    # The same names, and the second begins when the first ends: one recording.
    names, starts, codes = _sessions(_clips(("nest_01.mp4", 0, 60), ("nest_02.mp4", 61, 60)))
    assert (names, starts, codes) == (["nest_01", "nest_01"], [0, 60], ["chapters_joined"])
    # Times that do not fit: two recordings.
    assert _sessions(_clips(("nest_01.mp4", 0, 60), ("nest_02.mp4", 7200, 60)))[0] == ["nest_01", "nest_02"]
    # A number before the chapter's, no times: one recording, end to end, said.
    names, starts, codes = _sessions(_clips(("VID_0001_01.mp4", None, 60), ("VID_0001_02.mp4", None, 30)))
    assert (names, starts, codes) == (["VID_0001_01"] * 2, [0, 60], ["chapters_joined", "clock_assumed"])
    # Three digits are a running number; a missing chapter ends the recording.
    assert len(set(_sessions(_clips(("V_016.mp4", None, 9), ("V_017.mp4", None, 9)))[0])) == 2
    assert _sessions(_clips(("a7_01.mp4", None, 9), ("a7_03.mp4", None, 9)))[0] == ["a7_01", "a7_03"]
    assert (
        len(set(_sessions(_clips(("VID_0001_01.mp4", None, 9), ("VID_0001_02.mp4", None, 9)), chapters=False)[0])) == 2
    )


def test_a_missing_chapter_is_said_and_a_gap_where_times_say_how_long() -> None:
    names, starts, codes = _sessions(
        _clips(("GX010012.MP4", 0, 60), ("GX020012.MP4", 60, 60), ("GX040012.MP4", 180, 9))
    )
    assert (names, starts) == (["GX010012"] * 3, [0, 60, 180])
    assert codes == ["chapters_missing", "chapters_joined", "clock_gap"]
    names, starts, codes = _sessions(_clips(("GX010012.MP4", None, 60), ("GX030012.MP4", None, 60)))
    assert (names, starts, codes) == (["GX010012", "GX030012"], [0, 0], ["chapters_missing"])


def test_a_damaged_file_is_not_called_a_codec_to_convert(tmp_path: Path) -> None:
    raw = write_video(tmp_path / "whole.mp4", EVEN, faststart=True).read_bytes()
    path = tmp_path / "cut.mp4"
    path.write_bytes(raw[: int(len(raw) * 0.7)])
    with pytest.raises(DataError, match="found no frame that h264 can decode; .*Copy it from the card again") as caught:
        read_info(path)
    assert caught.value.problems[0].code == "no_frame"


def test_times_written_at_the_end_of_a_file_are_understood() -> None:
    # Files of 600, 600 and 100 s stamped when they were closed: read as beginnings, the last two would overlap.
    clips = _clips(("x_part1.mov", 600, 600.0), ("x_part2.mov", 1200, 600.0), ("x_part3.mov", 1300, 100.0))
    names, starts, codes = _sessions(clips)
    assert (set(names), starts) == ({"x_part1"}, [0, 600, 1200])
    assert "clock_by_end" in codes


def test_same_stem_in_two_folders_is_two_sessions() -> None:
    names, _, _ = _sessions(_clips(("a/cam.mp4", None, 9), ("b/cam.mp4", None, 9)))
    assert names == ["a/cam", "b/cam"]


def test_two_cameras_of_one_named_session_do_not_follow_each_other() -> None:
    clips = _clips(("c1.mp4", None, 60), ("c2.mp4", None, 60))
    placed, _ = place(clips, sessions=["day", "day"], cameras=["left", "right"])
    assert [p.start_s for p in placed] == [0, 0]
    placed, notices = place(clips, sessions=["day", "day"], cameras=[None, None])
    assert [p.start_s for p in placed] == [0, 60]
    assert [n.code for n in notices] == ["clock_assumed"]


def test_a_codec_without_decoder_is_named_with_the_command_that_helps(tmp_path: Path) -> None:
    raw = write_video(tmp_path / "ok.mp4", EVEN).read_bytes()
    path = tmp_path / "nest 7's.mp4"
    path.write_bytes(raw.replace(b"avc1", b"zq9x"))
    with pytest.raises(DataError) as caught:
        read_info(path)
    problem = caught.value.problems[0]
    assert problem.code == "unknown_codec" and "zq9x" in problem.found and problem.file == str(path)
    assert conversion_command(path) in problem.remedy
    assert (
        conversion_command(Path("a b.mov"))
        == "ffmpeg -i 'a b.mov' -c:v libx264 -crf 18 -pix_fmt yuv420p 'a b_h264.mp4'"
    )


def test_damaged_files_are_named_all_at_once(tmp_path: Path) -> None:
    whole = write_video(tmp_path / "ok.mp4", EVEN * 1, faststart=True).read_bytes()
    (tmp_path / "half.mp4").write_bytes(whole[: len(whole) - 300])
    (tmp_path / "tail.mp4").write_bytes(write_video(tmp_path / "t.mov", EVEN).read_bytes()[:900])
    (tmp_path / "empty.mp4").write_bytes(b"")
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(DataError) as caught:
        read_videos(Media(videos="*.mp4"), tmp_path, "x")
    found = {Path(p.file or "").name: p for p in caught.value.problems}
    assert set(found) == {"half.mp4", "tail.mp4", "empty.mp4", "text.mp4"}
    assert found["half.mp4"].code == "cut_off_video" and "25 frames" in found["half.mp4"].expected
    assert found["empty.mp4"].found == "an empty file"


def test_a_title_in_another_alphabet_is_no_reason_to_refuse(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", EVEN, created="2024-05-01T08:00:00Z")
    raw = path.read_bytes()
    at = raw.find(b"Lavf")
    path.write_bytes(raw[:at] + b"\xe4\xf6\xfc\xdf" + raw[at + 4 :])
    assert len(read_info(path).pts) == len(EVEN)


def test_a_damaged_frame_in_the_middle_costs_that_frame_only(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", EVEN[:12], gop=1)
    info = read_info(path)
    with av.open(str(path)) as container:
        places = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    raw = bytearray(path.read_bytes())
    # Key frames only; of the seventh, all but the length in front is overwritten.
    start, size = places[6]
    raw[start + 4 : start + size] = b"\xff" * (size - 4)
    path.write_bytes(bytes(raw))
    found = list(decode(path, range(12), times=info.times_s.tolist()))
    assert [i for i, _ in found] == list(range(12))
    wrong = [i for i, p in found if isinstance(p, DataError)]
    assert wrong == [6]
    assert all(number_of(p) == i for i, p in found if i != 6)


def test_nothing_in_the_part_to_use_is_an_error(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", EVEN)
    with pytest.raises(DataError, match="no frame in 05:00-06:00"):
        read_videos(Media(videos="*.mp4", use="05:00-06:00"), tmp_path, "x")


@pytest.mark.real
def test_real_clips(real_data: Path) -> None:
    media, frames, _ = read_videos(Media(videos="clips/*.mp4"), real_data / "flying_birds" / "frames", "clips")
    counts = dict(frames.group_by("media_id").len().iter_rows())
    assert counts == {
        f"clips/V_BIRD_{n}.mp4": k for n, k in (("016", 328), ("037", 326), ("045", 308), ("047", 322), ("048", 312))
    }
    for path in counts:
        rows = (real_data / "flying_birds" / "frames" / path).with_suffix(".csv").read_text().splitlines()[1:]
        assert max(int(row.split(",")[0]) for row in rows) < counts[path]
    assert set(media.select("width_px", "height_px", "video_id").rows()) == {
        (640, 512, f"V_BIRD_{n}") for n in ("016", "037", "045", "047", "048")
    }
    for _, part in frames.group_by("media_id"):
        assert (part["time_s"].diff().drop_nulls() > 0).all()
    _, thinned, _ = read_videos(Media(videos="clips/*.mp4", rate=1), real_data / "flying_birds" / "frames", "clips")
    assert thinned.height == 55
    pictures = [p for _, p in iter_frames(thinned, media)]
    assert {p.shape for p in pictures} == {(512, 640, 3)}
