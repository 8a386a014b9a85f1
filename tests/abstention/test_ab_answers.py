"""Answers in words: every style parses as listed, nothing raises, time is bounded, files are read strictly."""

from __future__ import annotations

import doctest
import importlib
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from birdlab.abstention.answers import ANSWER_SCHEMA, REASONS, Lexicon, Policy, parse_answer, parse_answers
from birdlab.abstention.answers.jsonish import find_json
from birdlab.abstention.answers.mentions import nearest_epithet
from birdlab.errors import DataError, ParameterError
from birdlab.readers.answers import read_answers
from birdlab.readers.taxonomy import read_taxonomy

CASES = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data/abstention/answers.jsonl").open(encoding="utf-8")
]
_LEXICA: dict[str, Lexicon] = {}


def lexicon_of(name: str) -> Lexicon:
    if name not in _LEXICA:
        _LEXICA[name] = Lexicon(read_taxonomy(name))
    return _LEXICA[name]


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return lexicon_of("ebird_2024")


class Small:
    """Three flycatchers and a gull that was split, as a taxonomy."""

    def __init__(self) -> None:
        rows = [("Aves", "class", None, "Aves", None)]
        rows += [("Tyrannidae", "family", "Aves", "Tyrannidae", None), ("Laridae", "family", "Aves", "Laridae", None)]
        rows += [("Empidonax", "genus", "Tyrannidae", "Empidonax", None), ("Larus", "genus", "Laridae", "Larus", None)]
        for name, common in [("traillii", "Willow"), ("alnorum", "Alder"), ("minimus", "Least")]:
            rows.append((f"Empidonax {name}", "species", "Empidonax", f"Empidonax {name}", f"{common} Flycatcher"))
        for name, common in [("argentatus", "European"), ("smithsonianus", "American")]:
            rows.append((f"Larus {name}", "species", "Larus", f"Larus {name}", f"{common} Herring Gull"))
        columns = ["taxon_id", "rank", "parent_id", "scientific_name", "common_name"]
        self.taxa = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")
        self.synonyms = pl.DataFrame(
            {"old_name": ["Muscicapa minima"], "new_names": ["Empidonax minimus"], "kind": ["rename"]}
        )


@pytest.mark.parametrize(
    "case", CASES, ids=lambda c: f"{c['style']}: {c['text'][:40]}".encode("ascii", "replace").decode()
)
def test_every_style_parses_as_listed(case: dict) -> None:
    got = parse_answer(
        case["text"], lexicon_of(case.get("list", "ebird_2024")), policy=Policy(**case.get("policy", {}))
    )
    assert (got.decision, got.taxon_id) == (case["decision"], case["taxon_id"])
    for key in ("method", "edits", "hedged", "confidence"):
        if key in case:
            assert getattr(got, key) == case[key], key
    for key in ("reasons", "flags"):
        if key in case:
            assert list(getattr(got, key)) == case[key], key
    if "candidates" in case:
        assert set(got.candidates) == set(case["candidates"])
    assert set(case.get("has_flags", [])) <= set(got.flags)


def test_the_fixture_holds_every_style_of_the_list_and_enough_others() -> None:
    styles = [c["style"] for c in CASES]
    numbers = {int(s.split()[1].strip(",")) for s in styles if s.startswith("notes")}
    # Style 34 (a long text with its answer at the end) is made in the test of long texts.
    assert numbers == set(range(1, 34))
    assert styles.count("own") >= 60


def test_the_last_final_answer_of_a_long_text_wins(lexicon: Lexicon) -> None:
    text = "It could be an American Crow. Final answer: American Crow? " * 800
    got = parse_answer(text + "\nFinal answer: Common Raven", lexicon)
    assert len(text) > 40_000 and got.taxon_id == "Corvus corax" and got.decision == "species"
    got = parse_answer(text * 25 + "\nFinal answer: Common Raven", lexicon)
    assert got.taxon_id == "Corvus corax" and "truncated" in got.flags


def test_every_name_of_the_list_parses_to_itself(lexicon: Lexicon) -> None:
    taxa = read_taxonomy("ebird_2024").taxa.filter(pl.col("rank").cast(pl.String) == "species")
    assert taxa.height == 11_145
    wrong = []
    for taxon, common in taxa.select("taxon_id", "common_name").iter_rows():
        for text, method in ((taxon, "exact_sci"), (common, "exact_common")):
            got = parse_answer(text, lexicon)
            if (got.decision, got.taxon_id, got.method, got.flags) != ("species", taxon, method, ()):
                wrong.append((text, got.decision, got.taxon_id))
    assert wrong == []


def test_every_genus_parses_to_itself_as_spuh(lexicon: Lexicon) -> None:
    wrong = [g for g in lexicon.genera.values() if parse_answer(f"{g} sp.", lexicon).taxon_id != g]
    assert wrong == [] and len(lexicon.genera) == 2374


def test_a_small_list_of_ones_own() -> None:
    lexicon = Lexicon(
        Small(),
        pl.DataFrame({"name": ["Zwergtyrann"], "language": ["German"], "scientific_name": ["Empidonax minimus"]}),
    )
    read = {
        t: parse_answer(t, lexicon)
        for t in ("Herring Gull", "Zwergtyrann", "Muscicapa minima", "flycatcher", "Common Raven")
    }
    assert (read["Herring Gull"].decision, read["Herring Gull"].taxon_id, read["Herring Gull"].flags) == (
        "genus",
        "Larus",
        ("split",),
    )
    assert read["Herring Gull"].candidates == ("Larus argentatus", "Larus smithsonianus")
    assert read["Zwergtyrann"].method == "vernacular" and read["Muscicapa minima"].method == "synonym"
    assert (read["flycatcher"].decision, read["flycatcher"].taxon_id) == ("genus", "Empidonax")
    assert read["Common Raven"].decision == "unparsed"


def test_what_the_question_offered_settles_a_name_of_several_birds(lexicon: Lexicon) -> None:
    got = parse_answer("Robin", lexicon, candidates=["Turdus migratorius", "Corvus corax"])
    assert (got.decision, got.taxon_id, got.flags) == ("species", "Turdus migratorius", ("by_candidates",))
    assert (
        parse_answer("Robin", lexicon, candidates=["Turdus migratorius", "Erithacus rubecula"]).decision == "unparsed"
    )
    assert "outside_candidates" in parse_answer("Osprey", lexicon, candidates=["Corvus corax"]).flags


def test_fuzzy_stays_inside_a_genus_and_is_unique() -> None:
    known = {"festiva": "Amazona festiva", "aestiva": "Amazona aestiva"}
    # One edit from one, two from the other; then one from both.
    assert nearest_epithet("festva", known) == ("Amazona festiva", 1)
    assert nearest_epithet("estiva", known) is None
    assert nearest_epithet("fes", known) is None


def test_fuzzy_never_crosses_genera(lexicon: Lexicon) -> None:
    # Crax and Crex, one letter apart; Crex crex is no Crax.
    for text in ("Crax crex", "Turdis migratorius", "Empidonx minimus", "American Robbin", "Comon Raven"):
        assert parse_answer(text, lexicon).decision != "species", text


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(ParameterError, match="best_guess"):
        Policy(best_guess="maybe")  # type: ignore[arg-type]


WORDS = [
    "American Robin",
    "Corvus corax",
    "Empidonax",
    "gull",
    "not",
    "or",
    "a",
    "Willow",
    "{",
    "}",
    '"species":',
    "'",
    ",",
    ".",
    "\n",
]
WORDS += [
    "Final answer:",
    "might be",
    "cannot identify",
    "too blurry",
    "song",
    "x",
    "/",
    "[",
    "]",
    "null",
    "confidence: 62%",
    "**",
    "<b>",
]
WORDS += [
    "\x00",
    "\u202e",
    "\ud800",
    "Species:",
    "Robin",
    "like",
    "Herring Gull",
    "coronata",
    "sp.",
    "(",
    ")",
    "100",
    "reason",
    ":",
]


def _check(text: str, lexicon: Lexicon) -> None:
    for policy in (Policy(), Policy("abstain", "multiple", "unparsed", "unparsed", "unparsed")):
        got = parse_answer(text, lexicon, policy=policy)
        assert got.text == text
        assert got.rank == lexicon.rank(got.taxon_id)
        assert (got.decision == "species") == (got.rank == "species") or got.decision == "multiple"
        if got.decision in ("abstain", "unparsed"):
            assert got.taxon_id is None
        if got.decision == "genus":
            assert got.rank == "genus"
        if got.decision == "higher":
            assert got.rank not in ("genus", "species", None)
        if got.decision == "multiple" and got.method != "group":
            assert len(got.candidates) > 1
        assert set(got.reasons) <= set(REASONS) and set(got.candidates) <= set(lexicon.tree.ranks)
        assert got.confidence is None or 0 <= got.confidence <= 1
        assert list(got.flags) == sorted(set(got.flags)) and (got.edits > 0) <= (got.method == "fuzzy")


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_parse_never_raises_and_is_consistent(lexicon: Lexicon, text: str) -> None:
    _check(text, lexicon)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(), max_size=60))
def test_parse_of_any_characters(lexicon: Lexicon, text: str) -> None:
    _check(text, lexicon)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_case_and_markdown_do_not_matter_for_exact_names(lexicon: Lexicon, data: st.DataObject) -> None:
    key = data.draw(
        st.sampled_from(sorted(k for k, e in lexicon.entries.items() if e.method in ("exact_sci", "exact_common")))
    )
    entry = lexicon.entries[key]
    wrap = data.draw(
        st.sampled_from(
            [
                "{}",
                "**{}**",
                "*{}*.",
                "# {}",
                "`{}`",
                '"{}"',
                "Species: {}",
                '{{"species": "{}"}}',
                "<b>{}</b>",
                "  {}\n",
            ]
        )
    )
    case = data.draw(st.sampled_from([str.lower, str.upper, str.title]))
    assert parse_answer(wrap.format(case(key)), lexicon).taxon_id == entry.taxa[0]


HOSTILE = """
from birdlab.abstention.answers import Lexicon, parse_answer
from birdlab.readers.taxonomy import read_taxonomy
lexicon = Lexicon(read_taxonomy("ebird_2024"))
texts = ["[" * 100_000, "{" * 100_000, '{"a":' * 50_000 + "}" * 50_000, "(" * 10**6, "a" * 10**6, "not " * 250_000]
texts += ['"' * 10**6, "'" * 10**6, "`" * 10**6, "'\\"\\\\" * 300_000, "Empidonax fooous " * 60_000, "Willow or " * 100_000]
texts += ["Common Raven or " * 60_000, "Willow Flycatcher or Alder, " * 30_000, "Species: " * 100_000, "Final answer: " * 80_000]
texts += ["<" * 10**6, "<a " * 300_000, "\\\\boxed{" * 100_000, "confidence " * 90_000, "9" * 10**6, "\\ufdfa" * 100_000, "a" + "\\u0301" * 10**6]
texts += ["\\u202e" * 10**6, "\\0" * 10**6, '{"species": "' + "x" * 10**6 + '"}', '{"species":"Common Raven"}' * 40_000, "</think>" * 100_000]
texts += ["{'species': " + "-" * 15_000 + "1}", "{'a': " + "(" * 9_000 + ")" * 9_000 + "}", '{"species": ' + "9" * 19_000 + "}"]
texts += ["cannot identify " * 60_000, "x " * 500_000, "\\n" * 10**6, "\\ud800" * 10_000, "```json\\n" * 80_000]
texts += ["The American Crow is not the Common Raven. " * 24_000]
for text in texts:
    parse_answer(text, lexicon)
"""


def test_hostile_texts_end_in_bounded_time() -> None:
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]


def test_json_is_never_evaluated() -> None:
    assert find_json("{'species': __import__('os').getcwd()}") is None
    assert find_json('{"a": ' + "[" * 40 + "]" * 40 + "}") is None


def test_a_table_of_answers_keeps_rows_and_order(lexicon: Lexicon) -> None:
    frame = pl.DataFrame(
        {
            "model": ["m"] * 4,
            "prompt_id": ["p", "p", "q", "q"],
            "permits_abstention": [True, True, False, None],
            "item_id": ["1", "2", "1", "2"],
            "text": ["Osprey (confidence 0.5)", None, "Osprey (confidence 0.5)", "too blurry"],
            "confidence": [None, None, 0.9, None],
        }
    )
    answers = parse_answers(frame, lexicon)
    assert dict(answers.schema) == {k: v if not isinstance(v, type) else v() for k, v in ANSWER_SCHEMA.items()}
    assert answers["decision"].to_list() == ["species", "unparsed", "species", "abstain"]
    assert answers["confidence"].to_list() == [0.5, None, 0.9, None]
    assert answers["reasons"].to_list() == [[], [], [], ["quality"]]
    assert answers["text"].to_list() == frame["text"].to_list()
    assert parse_answers(frame.clear(), lexicon).height == 0


def test_vernaculars_are_birds_of_the_list(lexicon: Lexicon) -> None:
    from birdlab.abstention.answers import read_vernaculars

    names = read_vernaculars()
    assert names.height >= 100 and names.is_duplicated().sum() == 0
    assert {"Amsel", "merle noir", "Mirlo común"} <= set(names["name"])
    words = [" ".join(n.split()[:2]) for n in names["scientific_name"]]
    lost = {w for w in words if parse_answer(w, lexicon).decision != "species"}
    assert lost == set()


def _write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_jsonl_and_csv_hold_the_same(tmp_path: Path) -> None:
    lines = [
        {"id": 7, "response": 'A "Robin",\nmaybe', "prompt": "p", "confidence": 0.5},
        {"id": "b", "response": None, "prompt": "p"},
    ]
    one = _write(tmp_path, "a.jsonl", "\ufeff" + "\n".join(json.dumps(x) for x in lines) + "\n\n")
    two = _write(tmp_path, "a.csv", 'ID,response,prompt,confidence\n7,"A ""Robin"",\nmaybe",p,50%\nb,,p,\n')
    first, notices = read_answers(one, model="m", prompts={"p": True})
    second, _ = read_answers(two, model="m", prompts={"p": True})
    assert (
        first.equals(second)
        and first["item_id"].to_list() == ["7", "b"]
        and first["confidence"].to_list() == [0.5, None]
    )
    assert notices["code"].to_list() == ["missing_text"] and first["permits_abstention"].to_list() == [True, True]


def test_every_problem_of_a_file_is_listed_with_its_line(tmp_path: Path) -> None:
    rows = [
        '{"id": 1, "text": "x"}',
        "{broken",
        "[1]",
        '{"id": 1, "text": "y"}',
        '{"text": "z"}',
        '{"id": 2, "text": 5}',
    ]
    rows += [
        '{"id": 3, "text": true}',
        '{"id": 4}',
        '{"id": 5, "text": "a", "confidence": 400}',
        '{"id": 6, "id": 7, "text": "b"}',
    ]
    path = _write(tmp_path, "a.jsonl", "\n".join(rows).encode() + b"\n\xff\n\0\n")
    with pytest.raises(DataError) as caught:
        read_answers(path, model="m")
    found = [(p.code, p.line) for p in caught.value.problems]
    assert found == [
        *[("not_json", 2), ("not_object", 3), ("duplicate_answer", 4), ("bad_id", 5), ("answer_not_text", 6)],
        *[
            ("answer_not_text", 7),
            ("no_answer", 8),
            ("bad_confidence", 9),
            ("not_json", 10),
            ("not_utf8", 11),
            ("nul", 12),
        ],
    ]


def test_many_problems_are_counted(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_answers(_write(tmp_path, "a.jsonl", "{\n" * 500), model="m")
    assert len(caught.value.problems) == 21 and caught.value.problems[-1].found == "480 more problems"


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.jsonl", "", "empty_file"),
        ("a.csv", "id,text\n", "empty_file"),
        ("a.csv", "id,text\n1,a,b\n", "ragged_row"),
        ("a.csv", "id,id\n1,a\n", "duplicate_column"),
        ("a.csv", 'id,text\n1,"open\n', "not_csv"),
        ("a.csv", "id,text\n1," + "x" * 200_000, "not_csv"),
        ("a.csv", "id,text\n1,a\n".encode("utf-16"), "not_utf8"),
        ("a.jsonl", "[" * 200_000, "not_json"),
        ("a.jsonl", '{"id": 1, "text": "a", "model": "other"}', "no_answers_of_model"),
        ("a.jsonl", '{"id": 1, "text": "a", "permits_abstention": "maybe"}', "bad_value"),
    ],
)
def test_hostile_files_are_refused_with_one_reason(tmp_path: Path, name: str, content: str | bytes, code: str) -> None:
    with pytest.raises(DataError) as caught:
        read_answers(_write(tmp_path, name, content), model="m")
    assert [p.code for p in caught.value.problems] == [code]


def test_prompts_must_be_known_and_agree(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        "a.jsonl",
        '{"id": 1, "text": "a", "prompt": "p", "permits_abstention": false}\n{"id": 1, "text": "a", "prompt": "q"}',
    )
    with pytest.raises(DataError) as caught:
        read_answers(path, model="m", prompts={"p": True})
    assert [p.code for p in caught.value.problems] == ["contradiction", "unknown_prompt"]
    table, notices = read_answers(path, model="m")
    assert table["permits_abstention"].to_list() == [False, None] and "permits_unknown" in notices["code"].to_list()


def test_a_line_too_long_is_passed_over_and_long_answers_are_cut(tmp_path: Path) -> None:
    huge = '{"id": 1, "text": "' + "a" * (17 * 2**20) + '"}\n{"id": 1, "text": "b"}\n{"id": 1, "text": "c"}\n'
    with pytest.raises(DataError) as caught:
        read_answers(_write(tmp_path, "a.jsonl", huge), model="m")
    assert [(p.code, p.line) for p in caught.value.problems] == [("line_too_long", 1), ("duplicate_answer", 3)]
    long = json.dumps({"id": 1, "text": "a" * 10**6 + "\ud800 Final answer: Osprey"})
    table, notices = read_answers(_write(tmp_path, "b.jsonl", long), model="m")
    assert len(table["text"][0]) < 10**5 and notices["code"].to_list() == [
        "long_text",
        "half_characters",
        "permits_unknown",
    ]
    answer = parse_answers(table, lexicon_of("ebird_2024"))
    assert answer["taxon_id"].to_list() == ["Pandion haliaetus"] and "truncated" in answer["flags"][0].to_list()


def test_a_missing_file_and_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_answers(tmp_path / "none.jsonl", model="m")
    with pytest.raises(ParameterError, match="jsonl, csv or tsv"):
        read_answers(_write(tmp_path, "a.xlsx", "x"), model="m")


@pytest.mark.parametrize("room", ["fold", "confidence", "policy", "mentions", "jsonish", "why", "groups", "lexicon"])
def test_examples(room: str) -> None:
    result = doctest.testmod(importlib.import_module(f"birdlab.abstention.answers.{room}"))
    assert result.failed == 0
