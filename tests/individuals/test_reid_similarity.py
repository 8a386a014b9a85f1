"""Embeddings and similarity matrices: read, pooled, turned into outcomes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score

from birdlab.errors import DataError
from birdlab.individuals.reid.measures import chance_average_precision, counts_of, measures_of
from birdlab.individuals.reid.outcomes import LEFT_OUT, average_precision, outcomes_of_similarity
from birdlab.individuals.reid.similarity import cosine_blocks, pool, score_individuals, similarity_blocks
from birdlab.readers.embeddings import (
    NO_LENGTH,
    NO_ROW,
    NO_SIMILARITY,
    NOT_FINITE,
    Embedded,
    read_embeddings,
    read_similarity,
    unit_vectors,
)


def written(folder: Path, matrix: np.ndarray, rows: str) -> tuple[Path, Path]:
    np.save(folder / "e.npy", matrix)
    (folder / "rows.csv").write_text(rows)
    return folder / "e.npy", folder / "rows.csv"


def problems(error: pytest.ExceptionInfo[DataError]) -> list[tuple[str, int | None]]:
    return [(p.code, p.line) for p in error.value.problems]


def test_images_are_pooled_as_unit_vectors(tmp_path: Path) -> None:
    matrix = np.array([[3, 4], [0, 10], [5, 0], [1, 1], [-1, -1]], dtype=np.float64)
    files = written(tmp_path, matrix, "clip_id,frame_index\na,0\nb,0\na,1\nc,0\nc,1\n")
    found = read_embeddings(*files, clips=["a", "b", "c", "d"])
    assert found.clip_id == ["a", "b"]
    mean = np.array([0.6 + 1, 0.8]) / 2
    assert found.matrix == pytest.approx(np.array([mean / np.linalg.norm(mean), [0, 1]]), abs=1e-6)
    assert found.reasons == {"c": NO_LENGTH, "d": NO_ROW}
    assert [(n.code, n.n) for n in found.notices] == [("no_embedding", 2)]


def test_nan_infinite_and_zero_embeddings_have_no_answer(tmp_path: Path) -> None:
    matrix = np.array([[1, 0], [np.nan, 1], [0, 0], [np.inf, 0], [0, 1e-30], [1e30, 1e30]], dtype=np.float32)
    files = written(tmp_path, matrix, "clip_id\n" + "\n".join("abcdef") + "\n")
    found = read_embeddings(*files, clips=list("abcdef"))
    assert found.clip_id == ["a", "e", "f"]
    assert found.matrix == pytest.approx(np.array([[1, 0], [0, 1], [0.5**0.5, 0.5**0.5]]))
    assert found.reasons == {"b": NOT_FINITE, "c": NO_LENGTH, "d": NOT_FINITE}
    assert {n.code: n.n for n in found.notices} == {
        "embedding_not_finite": 2,
        "embedding_zero": 1,
        "no_embedding": 3,
    }


@pytest.mark.parametrize("dtype", [pl.List(pl.Float32), pl.List(pl.Float64), pl.Array(pl.Float32, 2)])
def test_parquet_gives_what_npy_gives(tmp_path: Path, dtype: pl.DataType) -> None:
    frame = pl.DataFrame(
        {"clip_id": ["a", "b", "c"], "embedding": [[3, 4], None, [0, 2]]}, schema_overrides={"embedding": dtype}
    )
    frame.write_parquet(tmp_path / "e.parquet")
    found = read_embeddings(tmp_path / "e.parquet", clips=["a", "b", "c"])
    assert found.clip_id == ["a", "c"]
    assert found.matrix == pytest.approx(np.array([[0.6, 0.8], [0, 1]]))
    assert found.reasons == {"b": NOT_FINITE}


def test_rows_of_other_clips_are_counted(tmp_path: Path) -> None:
    files = written(tmp_path, np.eye(3), "clip_id\na\nx\ny\n")
    found = read_embeddings(*files, clips=["a"])
    assert [(n.code, n.n) for n in found.notices] == [("unknown_clip", 2)]
    with pytest.raises(DataError) as error:
        read_embeddings(*files, clips=["z"])
    assert problems(error) == [("no_clip", None)]


@pytest.mark.parametrize(
    ("matrix", "rows", "expected"),
    [
        (np.eye(3), "clip_id\na\nb\n", [("wrong_row_count", None)]),
        (np.eye(3), "clip_id\na\nb\na\n", [("duplicate_clip", 4)]),
        (np.eye(3), "clip_id,frame_index\na,0\na,1\na,1\n", [("duplicate_clip", 4)]),
        (np.eye(3), "clip,frame_index\na,0\na,1\na,2\n", [("missing_column", None)]),
        (np.zeros(3), "clip_id\na\nb\nc\n", [("not_a_matrix", None)]),
        (np.array([["a", "b"]]), "clip_id\na\n", [("not_a_matrix", None)]),
        (np.array([[{}]], dtype=object), "clip_id\na\n", [("pickle", None)]),
    ],
)
def test_files_that_do_not_belong_together(tmp_path: Path, matrix: np.ndarray, rows: str, expected: list) -> None:
    files = written(tmp_path, matrix, rows)
    with pytest.raises(DataError) as error:
        read_embeddings(*files, clips=["a", "b", "c"])
    assert problems(error) == expected


def test_an_npy_needs_its_rows_and_lists_one_length(tmp_path: Path) -> None:
    path, _ = written(tmp_path, np.eye(2), "clip_id\na\nb\n")
    with pytest.raises(DataError) as error:
        read_embeddings(path, clips=["a"])
    assert problems(error) == [("no_rows", None)]
    pl.DataFrame({"clip_id": ["a", "b"], "embedding": [[1.0, 2.0], [1.0]]}).write_parquet(tmp_path / "r.parquet")
    with pytest.raises(DataError) as error:
        read_embeddings(tmp_path / "r.parquet", clips=["a"])
    assert problems(error) == [("ragged_embeddings", None)]
    (tmp_path / "cut.npy").write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError) as error:
        read_embeddings(tmp_path / "cut.npy", tmp_path / "rows.csv", clips=["a"])
    assert problems(error) == [("damaged_file", None)]


def test_scores_are_the_best_or_the_mean_of_a_birds_clips() -> None:
    rng = np.random.default_rng(0)
    query, gallery = (unit_vectors(rng.normal(size=(n, 8)))[0] for n in (11, 30))
    codes = rng.integers(0, 5, 30) * 2
    cosine = query @ gallery.T
    for pooling, of in (("max", np.max), ("mean", np.mean)):
        found = score_individuals(query, gallery, codes, 10, pooling)
        for bird in range(10):
            expected = of(cosine[:, codes == bird], axis=1) if (codes == bird).any() else np.full(11, -np.inf)
            assert found[:, bird] == pytest.approx(expected, abs=1e-6)


def test_similarities_that_are_not_known_do_not_count() -> None:
    block = np.array([[0.5, np.nan, 0.1], [np.nan, np.inf, 0.2]], dtype=np.float32)
    codes = np.array([0, 0, 1])
    assert pool(block, codes, 2, "max").tolist() == [[0.5, pytest.approx(0.1)], [-np.inf, pytest.approx(0.2)]]
    assert pool(block, codes, 2, "mean").tolist() == [[0.5, pytest.approx(0.1)], [-np.inf, pytest.approx(0.2)]]


@pytest.mark.parametrize("n", [3, 17, 130])
def test_copies_of_a_vector_tie_whatever_the_blocks(n: int) -> None:
    rng = np.random.default_rng(n)
    gallery = unit_vectors(rng.normal(size=(n, 33)))[0]
    gallery = np.vstack([gallery, gallery[::-1]])
    query = unit_vectors(rng.normal(size=(9, 33)))[0]
    whole = np.vstack([block for _, block in cosine_blocks(query, gallery)])
    assert (whole[:, :n] == whole[:, n:][:, ::-1]).all()
    parts = np.vstack([block for _, block in cosine_blocks(query, gallery, block_bytes=8 * n * 4)])
    assert parts == pytest.approx(whole, abs=1e-6)


def study(rng: np.random.Generator, *, split: str = "closed") -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    birds = list("abcdef")
    gallery = pl.DataFrame({"clip_id": [f"g{i}" for i in range(30)], "individual_id": list(rng.choice(birds, 30))})
    gallery = gallery.with_columns(
        individual_id=pl.when(pl.col("clip_id") == "g0").then(pl.lit("solo")).otherwise("individual_id")
    )
    n = 12
    queries = pl.DataFrame(
        {
            "query_id": [f"q{i}" for i in range(n)],
            "clip_id": [f"q{i}" for i in range(n)],
            "video_id": [f"v{i % 4}" for i in range(n)],
            "individual_id": list(rng.choice(birds, n)),
            "candidates_territory": [list(rng.permutation(birds)[:3]) for _ in range(n)],
        }
    ).with_columns(split=pl.lit(split), is_known=pl.lit(True))
    return queries, gallery, [*queries["clip_id"], *gallery["clip_id"]]


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_outcomes_equal_a_loop_over_queries(pooling: str) -> None:
    rng = np.random.default_rng(4)
    queries, gallery, clips = study(rng)
    vectors = unit_vectors(rng.normal(size=(len(clips), 4)))[0]
    found = outcomes_of_similarity("m", "closed", queries, gallery, Embedded(clips, vectors, []), pooling=pooling)
    birds, of = gallery["individual_id"].to_numpy(), np.max if pooling == "max" else np.mean
    for row in found.iter_rows(named=True):
        i = int(row["query_id"][1:])
        listed = sorted(set(birds)) if row["gallery"] == "all" else queries["candidates_territory"][i].to_list()
        cosine = vectors[12:] @ vectors[i]
        scores = {b: of(cosine[birds == b]) for b in listed if (birds == b).any()}
        truth = queries["individual_id"][i]
        assert row["n_candidates"] == len(listed)
        if truth in scores:
            inside = np.isin(birds, listed)
            assert row["n_above"] == sum(s > scores[truth] for s in scores.values())
            assert row["ap_clip"] == pytest.approx(average_precision_score(birds[inside] == truth, cosine[inside]))
            guess = chance_average_precision([(birds == truth).sum()], [inside.sum()])[0]
            assert row["chance_ap_clip"] == pytest.approx(guess)
        else:
            assert row["n_above"] is None and row["ap_clip"] == 0
        assert row["answer"] == max(scores, key=scores.get)
        assert row["score"] == pytest.approx(max(scores.values()), abs=1e-6)


def test_chance_of_average_precision_is_the_mean_over_orders() -> None:
    scores = -np.arange(7.0)
    values = [average_precision(scores, scores[list(own)]) for own in itertools.combinations(range(7), 3)]
    assert chance_average_precision([3], [7])[0] == pytest.approx(np.mean(values))


def test_clips_without_a_vector_have_no_answer_and_their_birds_are_not_ranked(tmp_path: Path) -> None:
    queries, gallery, clips = study(np.random.default_rng(3))
    matrix = np.random.default_rng(1).normal(size=(len(clips), 4))
    matrix[clips.index("q2")] = np.nan
    matrix[clips.index("g0")] = 0
    files = written(tmp_path, matrix, "clip_id\n" + "\n".join(clips) + "\n")
    source = read_embeddings(*files, clips=clips)
    found = outcomes_of_similarity("m", "closed", queries, gallery, source).filter(pl.col("gallery") == "all")
    row = found.row(2, named=True)
    assert (row["answer"], row["n_above"], row["score"], row["reason"]) == (None, None, None, NOT_FINITE)
    assert row["in_list"] and row["n_candidates"] == gallery["individual_id"].n_unique()
    assert counts_of(found)["n_not_ranked"] == 1 and counts_of(found)["n_no_answer"] == 1
    assert "solo" not in found["answer"].to_list()
    assert measures_of(found)["map_clip", "micro"].chance is not None


def test_one_clip_under_two_birds_ties() -> None:
    vectors = unit_vectors(np.array([[1.0, 2, 3], [1, 2, 2.9], [1, 2, 2.9], [5, 0, 0]]))[0]
    gallery = pl.DataFrame({"clip_id": ["g1", "g2", "g3"], "individual_id": ["a", "b", "c"]})
    queries = pl.DataFrame(
        {"query_id": ["q"], "clip_id": ["q"], "video_id": ["v"], "individual_id": ["a"], "split": ["closed"]}
    ).with_columns(is_known=pl.lit(True))
    found = outcomes_of_similarity("m", "closed", queries, gallery, Embedded(["q", "g1", "g2", "g3"], vectors, []))
    assert found.select("n_above", "n_tied", "answer", "margin").row(0) == (0, 1, None, 0.0)
    assert measures_of(found)["top1", "micro"].value == 0.5
    assert counts_of(found)["n_tied"] == 1


def test_validation_clips_stand_in_for_unknown_birds() -> None:
    queries, gallery, clips = study(np.random.default_rng(8), split="open")
    queries = queries.with_columns(role=pl.Series(["validation"] * 4 + ["query"] * 8))
    vectors = unit_vectors(np.random.default_rng(1).normal(size=(len(clips), 4)))[0]
    found = outcomes_of_similarity("m", "open", queries, gallery, Embedded(clips, vectors, []))
    every = found.filter(pl.col("gallery") == "all")
    stand_in = every.filter(pl.col("query_id").str.ends_with(LEFT_OUT))
    assert stand_in.height == 4 and not stand_in["is_known"].any() and set(stand_in["role"]) == {"validation"}
    assert all(a != b for a, b in stand_in.select("answer", "individual_id").rows())
    first = every.filter(pl.col("query_id") == "q0").row(0, named=True)
    assert stand_in["score"][0] <= first["score"]
    assert stand_in["n_candidates"][0] == first["n_candidates"] - 1


def test_a_matrix_on_disk_gives_what_its_vectors_give(tmp_path: Path) -> None:
    queries, gallery, clips = study(np.random.default_rng(5))
    vectors = unit_vectors(np.random.default_rng(2).normal(size=(len(clips), 4)))[0]
    np.save(tmp_path / "s.npy", (vectors[:12] @ vectors[12:].T)[:, ::-1])
    (tmp_path / "rows.csv").write_text("clip_id\n" + "\n".join(clips[:12]) + "\n")
    (tmp_path / "columns.csv").write_text("clip_id\n" + "\n".join(clips[12:][::-1]) + "\n")
    source = read_similarity(tmp_path / "s.npy", tmp_path / "rows.csv", tmp_path / "columns.csv", clips=[*clips, "x"])
    assert source.reasons == {"x": NO_SIMILARITY}
    one = outcomes_of_similarity("m", "closed", queries, gallery, source)
    two = outcomes_of_similarity("m", "closed", queries, gallery, Embedded(clips, vectors, []))
    same = ["query_id", "gallery", "n_above", "n_tied", "answer"]
    assert one.select(same).rows() == two.select(same).rows()
    wanted = list(similarity_blocks(source, ["q3"], ["g1", "g0"]))
    assert wanted[0][1] == pytest.approx(vectors[[3]] @ vectors[[13, 12]].T, abs=1e-6)
    (tmp_path / "rows.csv").write_text("clip_id\nq0\n")
    with pytest.raises(DataError) as error:
        read_similarity(tmp_path / "s.npy", tmp_path / "rows.csv", tmp_path / "columns.csv", clips=clips)
    assert problems(error) == [("wrong_row_count", None)]
