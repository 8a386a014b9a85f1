"""`birdlab score difficulty`: the contract of its JSON, its text, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from difficulty_cases import FACTORS, made

from birdlab.cli import main
from birdlab.stats import wilson

DATA = Path(__file__).parent / "data" / "difficulty"
EXPECTED = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
HEADER = "instance,session,frame,rel_size,brightness,contrast,clutter,blur,crowding,recovered"
LINE = "{i},s{s},f{i},0.05,{b},40,0.1,100,1,{y}"


def run(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> tuple[int, dict, str]:
    code = main(["score", "difficulty", str(path), *options, "--json"])
    out, err = capsys.readouterr()
    assert out.count("\n") == 1  # one object on one line
    return code, json.loads(out), err


def written(folder: Path, *lines: str, header: str = HEADER, name: str = "birds.csv") -> Path:
    path = folder / name
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def some_lines(n: int = 8) -> list[str]:
    return [LINE.format(i=i, s=i % 2, b=50 + i * i, y=int(i % 3 > 0)) for i in range(n)]


@pytest.mark.parametrize("name", EXPECTED)
def test_cases_through_the_command(capsys: pytest.CaptureFixture[str], name: str) -> None:
    e = EXPECTED[name]
    code, got, _ = run(capsys, DATA / f"{name}.csv")
    assert code == 0
    assert (got["n"], got["n_total"], got["misses"]) == (e["rows_used"], e["rows_total"], e["misses"])
    assert got["recall"] == pytest.approx(e["recall"], abs=1e-12)
    assert got["recall_wilson"] == pytest.approx(e["recall_wilson95"], abs=1e-12)
    checks = got["checks"]
    assert checks["informative_sessions"] == e["sessions_informative"]
    assert checks["events_per_variable"] == pytest.approx(e["epv"], abs=1e-3)
    assert checks["vif"] == pytest.approx(e["vif_with_session_dummies"], abs=1e-6)
    assert checks["dropped_missing"] == e["rows_total"] - e["rows_used"] and checks["missing"] == e["missing"]
    terms = e["infinite_terms"]["terms"]
    if isinstance(terms, list):
        assert checks["separated"] == terms
    coefficients = {c["factor"]: c for c in got["coefficients"]}
    assert list(coefficients) == list(FACTORS)
    tolerance = 1e-4 if name[:2] == "11" else 1e-5
    for block, key, mine, within in (
        ("mle", "coef", "mle", 1e-6),
        ("mle", "se", "mle_se", 1e-6),
        ("ame", "ame", "ame", 1e-6),
        ("firth", "coef", "firth", tolerance),
        ("firth", "profile_ci95_firthmodels", "firth_ci", tolerance),
    ):
        for factor, value in e.get(block, {}).get(key, {}).items():
            if mine == "firth_ci" and value[0] >= value[1]:
                continue  # case 11, crowding: the reference is no interval
            assert coefficients[factor][mine] == pytest.approx(value, abs=within), (factor, mine)
    assert got["model_fitted"] is ("firth" in e)
    assert len(got["missed_instances"]) == got["misses"]


def test_the_contract_of_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    _, got, _ = run(capsys, DATA / "01_balanced.csv")
    keys = (
        "n n_total n_used_for_slopes misses recall recall_wilson bins checks coefficients model_fitted missed_instances"
    )
    assert set(keys.split()) | {"reasons"} <= set(got)
    bins = "factor level lo hi n k recall sessions max_session_share ci_within_sessions ci_new_sessions"
    assert all(set(bins.split()) <= set(b) for b in got["bins"])
    checks = "dropped_missing constant aliased informative_sessions separated events_per_variable vif"
    assert set(checks.split()) <= set(got["checks"])
    coefficients = "factor status firth firth_ci mle mle_se ame loso"
    assert all(set(coefficients.split()) <= set(c) for c in got["coefficients"])
    assert all(c["loso"][0] < c["loso"][1] for c in got["coefficients"])
    per_factor: dict[str, int] = {}
    for b in got["bins"]:
        per_factor[b["factor"]] = per_factor.get(b["factor"], 0) + b["n"]
    assert per_factor == dict.fromkeys(FACTORS, 529)


def test_presets_bin_differently(capsys: pytest.CaptureFixture[str]) -> None:
    """expected.json, case 01: clutter by .33/.66 has 175, 174, 180 birds of which 161, 154, 153 were recovered."""
    _, paper, _ = run(capsys, DATA / "01_balanced.csv", "--preset", "bluebird")
    _, default, _ = run(capsys, DATA / "01_balanced.csv")

    def clutter(got: dict) -> list[tuple[int, int]]:
        return [(b["n"], b["k"]) for b in got["bins"] if b["factor"] == "clutter"]

    assert clutter(paper) == [(175, 161), (174, 154), (180, 153)]
    assert clutter(default) != clutter(paper)
    assert paper["coefficients"] == default["coefficients"]


def test_what_must_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    _, two, _ = run(capsys, DATA / "02_session_all_recovered.csv")
    assert two["n_used_for_slopes"] == 398 and two["checks"]["uninformative_sessions"] == ["s3"]
    _, three, _ = run(capsys, DATA / "03_quasi_separation_by_crowding.csv")
    crowding = three["coefficients"][-1]
    assert (crowding["status"], crowding["mle"], crowding["mle_se"]) == ("infinite_pos", None, None)
    assert "coefficients.crowding" in three["reasons"]
    _, four, _ = run(capsys, DATA / "04_constant_factor.csv")
    assert four["checks"]["constant"] == ["crowding"] and four["reasons"]["coefficients.crowding"] == "1 distinct value"
    _, six, _ = run(capsys, DATA / "06_single_session.csv")
    assert all(c["loso"] is None and f"coefficients.{c['factor']}.loso" in six["reasons"] for c in six["coefficients"])
    assert all(b["ci_new_sessions"] is None for b in six["bins"])
    _, eight, _ = run(capsys, DATA / "08_perfect_recall.csv")
    assert (eight["model_fitted"], eight["n_used_for_slopes"], eight["missed_instances"]) == (False, 0, [])
    assert "529 of 529" in eight["reasons"]["model_fitted"]
    _, eleven, _ = run(capsys, DATA / "11_complete_separation_by_clutter.csv")
    assert eleven["checks"]["complete_separation"] and set(FACTORS) <= set(eleven["checks"]["separated"])
    assert eleven["checks"]["separates_alone"][0].startswith("clutter alone separates")


def test_one_miss_names_the_bird(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    frame = made(n=120)
    path = tmp_path / "birds.csv"
    frame.with_columns(recovered=(frame["instance"] != 7).cast(int)).write_csv(path)
    code, got, _ = run(capsys, path)
    assert (code, got["model_fitted"], got["missed_instances"]) == (0, False, [7])
    assert {c["status"] for c in got["coefficients"]} == {"not_fitted"}
    assert main(["score", "difficulty", str(path)]) == 0
    assert "missed: 7" in capsys.readouterr().out


def test_names_with_spaces_umlauts_and_text_ids(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = [
        line.replace(",s", ",Gärten Süd ", 1).replace(f"{i},", f'"bird {i}, left",', 1)
        for i, line in enumerate(some_lines(40))
    ]
    code, got, _ = run(capsys, written(tmp_path, *lines, name="Vögel am Nest.csv"))
    assert code == 0
    assert got["checks"]["informative_sessions"] == ["Gärten Süd 0", "Gärten Süd 1"]
    assert got["missed_instances"][0] == "bird 0, left"


def test_missing_values_are_counted_not_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = some_lines(40)
    lines[3] = lines[3].replace(",100,", ",,")
    code, got, _ = run(capsys, written(tmp_path, *lines))
    assert (code, got["n"], got["n_total"], got["checks"]["missing"]) == (0, 39, 40, {"blur": 1})
    assert [b["n"] for b in got["bins"] if b["level"] == "missing"] == [1]


def test_wilson_interval_of_the_used_birds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, got, _ = run(capsys, written(tmp_path, *some_lines(40)))
    assert got["recall_wilson"] == list(wilson(got["n"] - got["misses"], got["n"]))


def test_the_text_shows_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "difficulty", str(DATA / "02_session_all_recovered.csv")]) == 0
    text = capsys.readouterr().out
    assert "529 of 529 birds used, 46 missed, recall 91.3 % (88.6 to 93.4" in text
    assert "session s3 carries no information on slopes: all of its 131 birds recovered" in text
    assert "recall and MLE on 398" in text and "Associations, not causes" in text
    line = next(row for row in text.splitlines() if row.startswith("brightness  ok"))
    assert "-9.1 ± 2.3" in line and "-1.50 … -0.48" in line


@pytest.mark.parametrize(
    ("change", "code", "line", "key"),
    [
        (lambda rows: [rows[0].replace(",blur", "", 1), *rows[1:]], "missing_column", 1, "blur"),
        (lambda rows: [rows[0].replace("blur", "clutter"), *rows[1:]], "duplicate_column", 1, "clutter"),
        (lambda rows: [*rows[:3], rows[3][:-1] + "2", *rows[4:]], "not_binary", 4, "recovered"),
        (lambda rows: [*rows[:3], rows[3][:-1] + "yes", *rows[4:]], "not_binary", 4, "recovered"),
        (lambda rows: [*rows[:3], rows[3].replace(",40,", ",nan,"), *rows[4:]], "not_finite", 4, "contrast"),
        (lambda rows: [*rows[:3], rows[3].replace(",40,", ",inf,"), *rows[4:]], "not_finite", 4, "contrast"),
        (lambda rows: [*rows[:3], rows[3].replace(",40,", ",high,"), *rows[4:]], "not_a_number", 4, "contrast"),
        (lambda rows: [*rows, rows[2]], "duplicate_instance", 10, "instance"),
        (lambda rows: [*rows[:2], "9," + rows[2].split(",", 2)[2], *rows[3:]], "wrong_fields", 3, None),
        (
            lambda rows: [*rows[:2], ",".join(["9", "", *rows[2].split(",")[2:]]), *rows[3:]],
            "empty_value",
            3,
            "session",
        ),
        (lambda rows: rows[:2], "too_few_rows", 2, None),
        (lambda rows: rows[:1], "too_few_rows", 1, None),
        (lambda rows: [rows[0], *[row[:-1] for row in rows[1:]]], "no_outcome", 2, "recovered"),
        (lambda rows: [row.replace(",", ";") for row in rows], "missing_column", 1, None),
        (lambda rows: [*rows[:3], rows[3].replace(",40,", ",1e300,"), *rows[4:]], "too_large", 4, "contrast"),
    ],
)
def test_bad_files_are_refused_with_their_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, change, code: str, line: int, key: str | None
) -> None:
    rows = change([HEADER, *some_lines()])
    path = tmp_path / "birds.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    exit_code, got, err = run(capsys, path)
    first = got["errors"][0]
    assert (exit_code, first["code"], first["line"], first.get("key")) == (3, code, line, key)
    assert first["found"] and first["expected"] and first["file"] == str(path)
    assert "Traceback" not in err and f"line {line}" in err


@pytest.mark.parametrize("mark", [";", "\t"])
def test_another_separator_is_one_problem(capsys: pytest.CaptureFixture[str], tmp_path: Path, mark: str) -> None:
    path = written(tmp_path, *some_lines())
    path.write_text(path.read_text(encoding="utf-8").replace(",", mark), encoding="utf-8")
    _, got, err = run(capsys, path)
    assert len(got["errors"]) == 1 and err.strip().count("\n") == 0
    assert "eparate the columns by commas" in err


def test_every_problem_is_listed_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = some_lines()
    rows[0], rows[4] = rows[0][:-1] + "5", rows[4].replace(",40,", ",x,")
    _, got, _ = run(capsys, written(tmp_path, *rows))
    assert [(e["line"], e["code"]) for e in got["errors"]] == [(2, "not_binary"), (6, "not_a_number")]
    many = [row[:-1] + "7" for row in some_lines(70)]
    _, got, _ = run(capsys, written(tmp_path, *many))
    assert len(got["errors"]) == 51 and got["errors"][-1]["found"] == "20 more problems"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "empty_file"),
        (b"\n\n", "empty_file"),
        (HEADER.encode() + b"\n1,s\xff", "not_utf8"),
        (b"PAR1\x15\x04", "not_csv"),
        (b"PK\x03\x04\x14\x00", "not_csv"),
    ],
)
def test_files_that_are_no_table(capsys: pytest.CaptureFixture[str], tmp_path: Path, raw: bytes, code: str) -> None:
    path = tmp_path / "birds.csv"
    path.write_bytes(raw)
    exit_code, got, _ = run(capsys, path)
    assert (exit_code, got["errors"][0]["code"]) == (3, code)


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    exit_code, got, _ = run(capsys, tmp_path / "none.csv")
    assert (exit_code, got["errors"][0]["code"]) == (3, "unreadable")


def test_an_unknown_preset_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["score", "difficulty", "x.csv", "--preset", "mine"])
    assert left.value.code == 2
