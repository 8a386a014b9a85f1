"""``birdlab score reid``: files in, one object out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import polars as pl
import pytest

from birdlab.errors import DataError
from birdlab.individuals.command_reid import score, score_command
from birdlab.individuals.reid.ranked import outcomes_of_ranking
from birdlab.readers.reid_tables import check_queries_known, read_queries, read_ranking

QUERIES = """query_id,clip_id,video_id,individual_id,split,is_known,candidates_territory,candidates_neighbours
q1,c1,v1,a,closed,true,a|b,a|b|c|d
q2,c2,v1,b,closed,true,a|b|c,a|b|c|d
q3,c3,v2,c,closed,true,a|b,a|b|c
q4,c4,v2,d,closed,true,,a|d
"""
RANKING = """model,split,query_id,gallery,rank,individual_id,similarity
m,closed,q1,territory,1,a,0.9
m,closed,q1,territory,2,b,0.2
m,closed,q2,territory,1,a,0.5
m,closed,q2,territory,1,b,0.5
m,closed,q2,territory,3,c,0.1
m,closed,q3,territory,1,b,0.8
m,closed,q3,territory,2,a,0.4
"""


def files(folder: Path, queries: str = QUERIES, ranking: str = RANKING) -> argparse.Namespace:
    (folder / "queries.csv").write_text(queries)
    (folder / "ranking.csv").write_text(ranking)
    return argparse.Namespace(queries=folder / "queries.csv", ranking=folder / "ranking.csv", json=True)


def codes(error: pytest.ExceptionInfo[DataError]) -> list[tuple[str, int | None]]:
    return [(p.code, p.line) for p in error.value.problems]


def test_one_row_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = files(tmp_path)
    assert score_command(args) == 0
    report = json.loads(capsys.readouterr().out)
    (row,) = report["rows"]
    assert {k: row[k] for k in ("protocol", "gallery", "method", "n")} == {
        "protocol": "closed",
        "gallery": "territory",
        "method": "m",
        "n": 4,
    }
    # q1 is found, q2 ties with another, q3's bird is not on its list, q4's list is empty.
    assert row["top1"] == pytest.approx(1.5 / 4)
    assert row["top5"] == pytest.approx(2 / 4)
    assert row["map_individual"] == pytest.approx((1 + 0.75) / 4)
    assert row["chance_top1"] == pytest.approx((1 / 2 + 1 / 3) / 4)
    assert row["chance_top5"] == pytest.approx(2 / 4)
    assert row["chance_map_individual"] == pytest.approx((1.5 / 2 + (1 + 1 / 2 + 1 / 3) / 3) / 4)
    assert (row["n_not_listed"], row["n_tied"], row["n_empty_list"], row["n_not_ranked"]) == (2, 1, 1, 0)
    assert row["top1_ci_video"] is not None
    assert report["warnings"] == []
    args.json = False
    assert score_command(args) == 0
    assert "0.375" in capsys.readouterr().out


def test_without_lists_and_without_known(tmp_path: Path) -> None:
    queries = "query_id,individual_id,split\nq1,a,closed\nq2,b,closed\nq3,z,closed\n"
    ranking = "query_id,gallery,rank,individual_id\nq1,all,1,a\nq1,all,2,c\nq2,all,1,a\nq2,all,2,b\n"
    report = score(files(tmp_path, queries, ranking))
    (row,) = report["rows"]
    assert (row["method"], row["n"]) == ("ranking", 3)
    assert (row["top1"], row["top5"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    # Three birds are ranked in all; z is none of them.
    assert row["chance_top1"] == pytest.approx(2 / 9)
    assert (row["n_not_listed"], row["n_not_ranked"]) == (1, 0)
    assert any("no bird is ranked" in text for text in report["warnings"])
    assert any("shorter than their list" in text for text in report["warnings"])


def test_the_rank_stands_and_a_missing_one_is_made(tmp_path: Path) -> None:
    ranking = "query_id,gallery,rank,individual_id,similarity\n"
    ranking += "q1,neighbours,1,a,0.5\nq1,neighbours,2,b,0.5\nq1,neighbours,3,c,0.9\n"
    ranking += "q2,neighbours,,a,0.7\nq2,neighbours,,b,0.7\nq2,neighbours,,c,0.1\n"
    report = score(files(tmp_path, ranking=ranking))
    (row,) = report["rows"]
    assert row["top1"] == pytest.approx((1 + 0.5) / 4)
    assert row["n_tied"] == 1
    assert any("equal similarity" in t and t.endswith("(1)") for t in report["warnings"])
    assert any("lower similarity" in t and t.endswith("(1)") for t in report["warnings"])


def test_birds_outside_the_list_do_not_count(tmp_path: Path) -> None:
    ranking = RANKING.replace("m,closed,q1,territory,1,a", "m,closed,q1,territory,1,d,0.99\nm,closed,q1,territory,2,a")
    ranking = ranking.replace("m,closed,q1,territory,2,b", "m,closed,q1,territory,3,b")
    report = score(files(tmp_path, ranking=ranking))
    assert report["rows"][0]["top1"] == pytest.approx(1.5 / 4)
    assert any("not on the list" in text and text.endswith("(1)") for text in report["warnings"])


OPEN = """query_id,video_id,individual_id,split,is_known,role
k1,v1,a,open,1,query
k2,v2,b,open,1,query
u1,v1,x,open,0,query
u2,v3,y,open,0,query
t1,v4,a,open,1,validation
t2,v5,b,open,1,validation
"""
OPEN_RANKING = "query_id,gallery,individual_id,similarity\n" + "".join(
    f"{q},all,a,{a}\n{q},all,b,{b}\n"
    for q, a, b in [
        ("k1", 0.9, 0.1),
        ("k2", 0.1, 0.5),
        ("u1", 0.8, 0.1),
        ("u2", 0.3, 0.2),
        ("t1", 0.95, 0.4),
        ("t2", 0.3, 0.75),
    ]
)


def test_open_set(tmp_path: Path) -> None:
    report = score(files(tmp_path, OPEN, OPEN_RANKING))
    (row,) = report["rows"]
    assert (row["n"], row["n_unknown"], row["threshold"]) == (2, 2, 0.75)
    assert (row["top1"], row["auroc"], row["baks"], row["baus"]) == (1.0, 0.75, 0.5, 0.5)
    assert row["chance_auroc"] == 0.5 and row["chance_baus"] == 0.5
    assert row["chance_baks"] == pytest.approx(0.25)


def test_open_set_without_similarity_or_validation_is_null_with_its_reason(tmp_path: Path) -> None:
    plain = "".join(line for line in OPEN.splitlines(keepends=True) if "validation" not in line)
    ranking = "".join(line for line in OPEN_RANKING.splitlines(keepends=True) if not line.startswith("t"))
    report = score(files(tmp_path, plain, ranking))
    assert report["rows"][0]["baks"] is None and report["rows"][0]["auroc"] == 0.75
    assert "validation" in report["reasons"]["open.all.ranking.baks"]
    ranks = "query_id,gallery,individual_id,rank\nk1,all,a,1\nk2,all,b,1\nu1,all,a,1\n"
    report = score(files(tmp_path, plain, ranks))
    assert report["rows"][0]["auroc"] is None
    assert "similarity" in report["reasons"]["open.all.ranking.auroc"]


def test_known_birds_are_told_by_the_ranking_where_the_file_does_not(tmp_path: Path) -> None:
    plain = "query_id,individual_id,split\nk1,a,open\nk2,b,open\nu1,x,open\nu2,y,open\n"
    ranking = "".join(line for line in OPEN_RANKING.splitlines(keepends=True) if not line.startswith("t"))
    report = score(files(tmp_path, plain, ranking))
    assert (report["rows"][0]["n"], report["rows"][0]["n_unknown"]) == (2, 2)
    assert any("which birds are known" in text for text in report["warnings"])


def test_disjointed_is_disjoint_and_lists_may_be_parquet(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("query_id;individual_id;split\nq1;a;Disjointed\n", encoding="utf-8-sig")
    assert read_queries(tmp_path / "q.csv")["split"].to_list() == ["disjoint"]
    pl.DataFrame(
        {
            "query_id": [1, 2],
            "individual_id": ["a", "b"],
            "split": ["closed", "open-set"],
            "candidates_territory": [["a", " b", "a"], None],
        }
    ).write_parquet(tmp_path / "q.parquet")
    found = read_queries(tmp_path / "q.parquet")
    assert found["query_id"].to_list() == ["1", "2"]
    assert found["candidates_territory"].to_list() == [["a", "b"], None]
    assert found["split"].to_list() == ["closed", "open"]
    (tmp_path / "q.csv").write_text("query_id,individual_id,split,candidates_territory\nq1,a,closed,\n")
    assert read_queries(tmp_path / "q.csv")["candidates_territory"].to_list() == [[]]


def test_every_problem_of_the_queries_has_its_line(tmp_path: Path) -> None:
    text = "query_id,individual_id,split,is_known\nq1,a,closed,true\nq1,b,closed,true\n,c,closed,true\n"
    text += "q4,,closed,true\nq5,e,shut,true\nq6,f,open,perhaps\n"
    (tmp_path / "q.csv").write_text(text)
    with pytest.raises(DataError) as error:
        read_queries(tmp_path / "q.csv")
    assert codes(error) == [("empty_value", 4), ("empty_value", 5), ("bad_value", 6), ("not_binary", 7)]
    (tmp_path / "q.csv").write_text("query_id,individual_id,split\nq1,a,closed\nq1,b,closed\nq1,a,open\n")
    with pytest.raises(DataError) as error:
        read_queries(tmp_path / "q.csv")
    assert codes(error) == [("duplicate_query", 3)]
    (tmp_path / "q.csv").write_text("query_id,bird\nq1,a\n")
    with pytest.raises(DataError) as error:
        read_queries(tmp_path / "q.csv")
    assert {p.key for p in error.value.problems} == {"individual_id", "split"}


def test_every_problem_of_the_ranking_has_its_line(tmp_path: Path) -> None:
    head = "query_id,gallery,rank,individual_id,similarity\n"
    text = head + "q1,all,0,a,0.1\nq1,all,1.5,b,0.1\nq1,everywhere,1,c,0.1\nq1,all,x,d,inf\n"
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(DataError) as error:
        read_ranking(tmp_path / "r.csv")
    assert sorted(codes(error)) == [
        ("bad_rank", 2),
        ("bad_rank", 3),
        ("bad_rank", 5),
        ("bad_value", 4),
        ("not_a_number", 5),
    ]
    (tmp_path / "r.csv").write_text(
        head + "q1,all,1,a,0.1\nq1,all,2,a,0.1\nq2,all,,a,nan\nq3,all,1,a,\nq3,all,,b,0.3\n"
    )
    with pytest.raises(DataError) as error:
        read_ranking(tmp_path / "r.csv")
    assert sorted(codes(error)) == [("duplicate_bird", 3), ("no_rank", 4), ("no_rank", 6)]
    (tmp_path / "r.csv").write_text("query_id,gallery,individual_id\nq1,all,a\n")
    with pytest.raises(DataError) as error:
        read_ranking(tmp_path / "r.csv")
    assert codes(error) == [("missing_column", None)]


def test_rankings_of_queries_nobody_asked(tmp_path: Path) -> None:
    args = files(tmp_path, ranking=RANKING + "m,closed,q9,territory,1,a,0.1\nm,open,q1,territory,1,a,0.1\n")
    with pytest.raises(DataError) as error:
        score(args)
    assert codes(error) == [("unknown_query", 9), ("unknown_query", 10)]
    twice = QUERIES + "q1,c1,v1,a,open,true,a,a\n"
    args = files(tmp_path, twice, "query_id,gallery,rank,individual_id\nq1,all,1,a\n")
    queries = read_queries(args.queries)
    with pytest.raises(DataError) as error:
        check_queries_known(queries, read_ranking(args.ranking), args.ranking)
    assert codes(error) == [("which_split", 2)]


def test_two_methods_and_galleries_are_rows_in_their_order(tmp_path: Path) -> None:
    more = RANKING + "n,closed,q1,all,1,a,0.9\nn,closed,q1,territory,1,b,0.9\n"
    rows = score(files(tmp_path, ranking=more))["rows"]
    assert [(r["gallery"], r["method"]) for r in rows] == [("territory", "m"), ("territory", "n"), ("all", "n")]


def test_a_ranking_without_protocols_belongs_to_the_one_that_asks(tmp_path: Path) -> None:
    args = files(tmp_path, ranking="query_id,gallery,rank,individual_id\nq1,all,1,a\nq7,all,1,b\n")
    queries, ranking = read_queries(args.queries), read_ranking(args.ranking)
    found = outcomes_of_ranking("ranking", queries, ranking.filter(pl.col("query_id") == "q1"))
    assert found.outcomes["split"].unique().to_list() == ["closed"] and found.outcomes["answer"][0] == "a"
    named = ranking.with_columns(split=pl.lit("closed", dtype=ranking["split"].dtype))
    found = outcomes_of_ranking("ranking", queries, named)
    assert {n.code: n.n for n in found.notices}["unknown_query"] == 1
    assert found.outcomes["n_candidates"].to_list() == [1] * 4
    twice = pl.concat([queries, queries.with_columns(split=pl.lit("open", dtype=queries["split"].dtype))])
    with pytest.raises(DataError) as error:
        outcomes_of_ranking("ranking", twice, ranking)
    assert codes(error) == [("which_split", None)]
