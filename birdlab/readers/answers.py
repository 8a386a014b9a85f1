"""Answers in words from a file: JSON lines or CSV, one answer a row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import polars as pl

from birdlab.abstention.answers.confidence import read_confidence
from birdlab.errors import DataError, ParameterError, Problem
from birdlab.readers.answers_rows import Collector, Row, csv_rows, json_rows
from birdlab.readers.files import Notice, notice_table

Format = Literal["jsonl", "csv", "tsv"]
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model": pl.String, "prompt_id": pl.String, "permits_abstention": pl.Boolean, "item_id": pl.String},
    **{"text": pl.String, "confidence": pl.Float64},
}
#: Accepted names of each field, the first that is there counts.
KEYS: dict[str, tuple[str, ...]] = {
    "item_id": ("item_id", "id", "image_id", "image", "item"),
    "text": ("answer", "text", "response", "output", "completion"),
    "prompt_id": ("prompt_id", "prompt"),
    "permits_abstention": ("permits_abstention",),
    "confidence": ("confidence",),
    "model": ("model",),
}
#: Prompt of answers that name none.
ONE_PROMPT = "default"
# Of a longer answer the head and the tail are kept: the parser reads no more.
_LONGEST, _HEAD, _TAIL = 131_072, 32_768, 65_536
_FORMATS: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".tab": "tsv"}
_YES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_answers(
    path: str | Path, *, model: str, prompts: Mapping[str, bool] | None = None, format: Format | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Answers of one model to one or several prompts, read one line at a time.

    Keys or columns: ``item_id`` (or id, image_id, image, item), ``answer`` (text, response, output, completion),
    ``prompt_id`` (prompt), ``permits_abstention``, ``confidence``, ``model``. An answer that is null has no text: it
    will be ``unparsed``, and is counted. An answer that is a JSON object is kept as JSON text.

    Args:
        path: the file.
        model: name of the model; rows that name another one are left out and counted.
        prompts: whether each prompt permits abstention. Without it the rows say so; where they do not, it is null.
        format: ``jsonl``, ``csv`` or ``tsv``; from the suffix by default.

    Returns:
        Columns model, prompt_id, permits_abstention, item_id, text, confidence (in [0, 1] or null), in order of the
        file; and the notices.

    Raises:
        DataError: everything that is wrong with the file, with its line: 20 problems, and the number of the others. An
            item answered twice for one prompt is one.
        ParameterError: the format is unknown.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(Problem("no_file", "a folder", "a file of answers", file=str(path)))
    problems = Collector(path.name)
    table = _Table(model, prompts, problems)
    for row in _rows(path, _format(path, format), problems):
        table.add(row)
    table.finish()
    problems.stop()
    return pl.DataFrame(table.columns, schema=SCHEMA), notice_table(table.notices(path.name))


def named_model(value: Any) -> str | None:
    """The model that a row names, as text that any table can hold; ``None`` where it names none.

    >>> named_model(3), named_model(["a"]), named_model(None)
    ('3', "['a']", None)
    """
    return None if value is None else str(value).encode("utf-8", "replace").decode()


def _format(path: Path, format: Format | None) -> Format:
    chosen = format or _FORMATS.get(path.suffix.lower())
    if chosen not in ("jsonl", "csv", "tsv"):
        found = f"format {format!r}" if format else f"a file ending in {path.suffix or 'nothing'}"
        remedy = "rename the file, or give the format"
        raise ParameterError(Problem("bad_format", found, "jsonl, csv or tsv", remedy, file=path.name))
    return chosen


def _rows(path: Path, format: Format, problems: Collector) -> Iterator[Row]:
    if not path.is_file():
        raise DataError(Problem("no_file", "no such file", "a file of answers", file=str(path)))
    if format == "jsonl":
        return json_rows(path, problems)
    return csv_rows(path, problems, delimiter="," if format == "csv" else "\t")


class _Table:
    """The columns read so far, and what was met on the way."""

    def __init__(self, model: str, prompts: Mapping[str, bool] | None, problems: Collector) -> None:
        self.model, self.prompts, self.problems = model, prompts, problems
        self.columns: dict[str, list[Any]] = {name: [] for name in SCHEMA}
        self.seen: dict[tuple[str, str], int] = {}
        self.permits: dict[str, bool | None] = {}
        self.counts: Counter[str] = Counter()
        self.others: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        """One row; what is wrong with it is collected."""
        found = {field: next((row.fields[k] for k in keys if k in row.fields), None) for field, keys in KEYS.items()}
        if not any(key in row.fields for key in KEYS["text"]):
            expected = "one of " + ", ".join(KEYS["text"])
            self.problems.add(
                "no_answer", "keys " + ", ".join(map(repr, list(row.fields)[:6])), expected, line=row.line
            )
            return
        model = named_model(found["model"])
        if model is not None and model != self.model:
            self.others[model[:60]] += 1
            return
        item = self._name(found["item_id"], "item_id", row.line)
        prompt = ONE_PROMPT if found["prompt_id"] is None else self._name(found["prompt_id"], "prompt_id", row.line)
        text, fits = self._text(found["text"], row.line)
        confidence = self._confidence(found["confidence"], row.line)
        if item is None or prompt is None or not fits:
            return
        first = self.seen.setdefault((prompt, item), row.line)
        if first != row.line:
            found_twice = f"item {item!r} of prompt {prompt!r} again (first in line {first})"
            self.problems.add("duplicate_answer", found_twice, "one answer per prompt and item", line=row.line)
            return
        permits = self._permits(prompt, found["permits_abstention"], row.line)
        values = (self.model, prompt, permits, item, text, confidence)
        for name, value in zip(SCHEMA, values, strict=True):
            self.columns[name].append(value)

    def _name(self, value: Any, key: str, line: int) -> str | None:
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return self._encodable(str(value).strip())
        found = "nothing" if value is None or value == "" else repr(value)[:60]
        self.problems.add("bad_id", found, "a name or a whole number", line=line, key=key)
        return None

    def _text(self, value: Any, line: int) -> tuple[str | None, bool]:
        if isinstance(value, dict | list):
            self.counts["answer_object"] += 1
            value = json.dumps(value, ensure_ascii=False)
        if value is None:
            self.counts["missing_text"] += 1
            return None, True
        if not isinstance(value, str):
            self.problems.add("answer_not_text", repr(value)[:60], "an answer in words", line=line, key="answer")
            return None, False
        if len(value) > _LONGEST:
            self.counts["long_text"] += 1
            value = f"{value[:_HEAD]}\n[{len(value) - _HEAD - _TAIL} characters left out]\n{value[-_TAIL:]}"
        return self._encodable(value), True

    def _encodable(self, text: str) -> str:
        """JSON can hold halves of characters that no table can: they become U+FFFD."""
        try:
            text.encode()
        except UnicodeEncodeError:
            self.counts["half_characters"] += 1
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text

    def _confidence(self, value: Any, line: int) -> float | None:
        confidence, flags = read_confidence(value)
        if flags and flags != ("confidence_percent",):
            if flags == ("confidence_words",):
                self.counts["confidence_words"] += 1
            else:
                expected = "a number from 0 to 1, or per cent"
                self.problems.add("bad_confidence", repr(value)[:60], expected, line=line, key="confidence")
        return confidence

    def _permits(self, prompt: str, value: Any, line: int) -> bool | None:
        said = None if value is None else value if isinstance(value, bool) else _YES.get(str(value).strip().lower())
        if value is not None and said is None:
            self.problems.add("bad_value", repr(value)[:60], "true or false", line=line, key="permits_abstention")
        if self.prompts is not None:
            if prompt not in self.prompts:
                known = ", ".join(list(self.prompts)[:8])
                self.problems.add("unknown_prompt", repr(prompt[:60]), f"one of {known}", line=line, key="prompt_id")
                return None
            said = self.prompts[prompt] if said is None else said
            if said != self.prompts[prompt]:
                self._contradiction(prompt, said, self.prompts[prompt], line)
            return self.prompts[prompt]
        first = self.permits.setdefault(prompt, said)
        if first != said:
            self._contradiction(prompt, said, first, line)
        return said

    def _contradiction(self, prompt: str, said: object, first: object, line: int) -> None:
        found = f"{said} for prompt {prompt[:60]!r}"
        self.problems.add("contradiction", found, f"{first}, as before", line=line, key="permits_abstention")

    def finish(self) -> None:
        """What can only be said at the end: nothing was read."""
        if self.columns["text"] or self.problems.total:
            return
        if self.others:
            found = "answers of " + ", ".join(repr(name) for name in list(self.others)[:5])
            self.problems.add("no_answers_of_model", found, f"answers of {self.model!r}", key="model")
        else:
            self.problems.add("empty_file", "no answer", "one answer a row")

    def notices(self, file: str) -> list[Notice]:
        """What was left out, mended or assumed."""
        said = {
            "missing_text": "answers without a text: they count as unparsed",
            "answer_object": "answers that are JSON objects were kept as JSON text",
            "long_text": f"answers of more than {_LONGEST} characters: their middle was left out",
            "half_characters": "texts with half characters (lone surrogates): these became U+FFFD",
            "confidence_words": "confidences in words: no number was made of them",
        }
        notices = [Notice(code, text, self.counts[code], file) for code, text in said.items() if self.counts[code]]
        if self.others:
            names = ", ".join(list(self.others)[:5])
            notices.append(
                Notice("other_models", f"answers of other models ({names}) left out", self.others.total(), file)
            )
        unknown = sum(1 for permits in self.columns["permits_abstention"] if permits is None)
        if unknown:
            text = "answers to prompts of which it is unknown whether they permit abstention"
            notices.append(Notice("permits_unknown", text, unknown, file))
        return notices
