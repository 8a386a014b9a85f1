"""The four operators of the error budget box by box, in plain dictionaries: slow, and nothing shared with the package."""

from __future__ import annotations

from collections import Counter


def most(votes: list, default=None):
    """Most frequent value, the first met among equals."""
    return Counter(votes).most_common(1)[0][0] if votes else default


class Plain:
    """One video under one combination."""

    def __init__(self, colony, video: str, pairs) -> None:
        row = colony.videos.filter(video_id=video).row(0, named=True)
        self.n, self.minutes = row["n_frames"], row["n_frames"] / row["fps"] / 60
        truth = [r for r in colony.boxes.iter_rows(named=True) if r["video_id"] == video and r["frame"] < self.n]
        boxes = [r for r in colony.tracks.iter_rows(named=True) if r["video_id"] == video and r["frame"] < self.n]
        link = {r["row"]: r["predicted_row"] for r in pairs.iter_rows(named=True) if r["video_id"] == video}
        by_row = {r["row"]: r for r in boxes}
        back = {p: t for t, p in link.items() if p in by_row}
        self.truth = {r["row"]: r for r in truth}
        track_of = {r["row"]: by_row[link[r["row"]]]["track_id"] for r in truth if link.get(r["row"]) in by_row}
        # Boxes: frame, track, row of the truth's box or none.
        self.found = sorted(
            ((r["frame"], r["row"], r["track_id"], back.get(r["row"]) if back.get(r["row"]) in self.truth else None)
             for r in boxes),
        )  # fmt: skip
        self.full = sorted((r["frame"], r["row"], self.nearest(r, track_of), r["row"]) for r in truth)
        self.seen = set(track_of)
        self.named = {r[3]: r[5] for r in colony.identities.iter_rows() if r[2] == video}
        self.events = [
            r for r in colony.events.iter_rows(named=True)
            if r["video_id"] == video and r["individual_id"] and r["behaviour"] == "peck"
        ]  # fmt: skip
        self.windows = sorted(
            ((r["start"], r["end"], r["track_id"]) for r in colony.windows.iter_rows(named=True)
             if r["video_id"] == video and r["label"] == "Peck" and r["end"] > r["start"]),
        )  # fmt: skip

    def nearest(self, box: dict, track_of: dict):
        if box["row"] in track_of:
            return track_of[box["row"]]
        own = [r for r in self.truth.values() if r["visit_id"] == box["visit_id"] and r["row"] in track_of]
        if not own:
            return ("visit", box["visit_id"])
        best = min(own, key=lambda r: (abs(r["frame"] - box["frame"]), r["frame"] > box["frame"]))
        return track_of[best["row"]]

    def bird(self, row: int):
        return self.truth[row]["individual_id"]

    def run(self, d: bool, t: bool, i: bool, b: bool) -> tuple[Counter, dict]:
        """Pecks of every bird, and the frames it is seen in."""
        boxes = self.full if d else self.found
        owner = {
            k: most([self.bird(x[3]) for x in boxes if x[2] == k and x[3] is not None]) for k in {x[2] for x in boxes}
        }
        group = {x[1]: ("visit", self.truth[x[3]]["visit_id"]) if t and x[3] is not None else x[2] for x in boxes}
        name = {}
        for g in set(group.values()) | {w[2] for w in self.windows}:
            own = [x for x in boxes if group.get(x[1]) == g]
            if i:
                name[g] = most([self.bird(x[3]) for x in own if x[3] is not None])
            elif isinstance(g, tuple):
                name[g] = most([self.vote(x, owner) for x in own])
            else:
                name[g] = self.named.get(g)
        pecks = self.true_pecks(boxes, group, name, d) if b else self.told_pecks(boxes, group, name, d)
        seen: dict = {}
        for x in boxes:
            if name[group[x[1]]]:
                seen.setdefault(name[group[x[1]]], set()).add(x[0])
        return pecks, seen

    def vote(self, box: tuple, owner: dict):
        """A box of a rightly named track, or of a visit nobody found, votes for its own bird."""
        track = box[2]
        if isinstance(track, tuple) or self.named.get(track) == owner[track]:
            return self.bird(box[3])
        return self.named.get(track)

    def rows_of(self, event: dict) -> list[int]:
        inside = [r for r in self.truth.values() if r["individual_id"] == event["individual_id"]
                  and event["start"] <= r["frame"] <= event["end"]]  # fmt: skip
        return [r["row"] for r in sorted(inside, key=lambda r: (r["frame"], r["row"]))]

    def track_of_event(self, event: dict, boxes: list, group: dict):
        place = {x[3]: x[1] for x in boxes if x[3] is not None}
        return most([group[place[r]] for r in self.rows_of(event) if r in place])

    def true_pecks(self, boxes: list, group: dict, name: dict, d: bool) -> Counter:
        out: Counter = Counter()
        for e in self.events:
            g = self.track_of_event(e, boxes, group)
            out[name[g] if g is not None else e["individual_id"] if d else None] += 1
        return out

    def told_pecks(self, boxes: list, group: dict, name: dict, d: bool) -> Counter:
        kept = []
        for start, end, track in self.windows:
            inside = [group[x[1]] for x in boxes if x[2] == track and start <= x[0] < end]
            anywhere = [group[x[1]] for x in boxes if x[2] == track]
            before = [x for x in self.found if x[2] == track]
            gone = any(start <= x[0] < end for x in before) or (before and not anywhere)
            if inside or not (d and gone):
                kept.append((start, end, most(inside) or most(anywhere) or track))
        out: Counter = Counter()
        last: dict = {}
        for start, end, g in kept:
            who = name.get(g) if g in name else self.named.get(g)
            if who and start >= last.get(who, -1):
                out[who], last[who] = out[who] + 1, end
        if d:
            for e in self.events:
                if self.seen & set(self.rows_of(e)):
                    continue
                g = self.track_of_event(e, boxes, group)
                if not any(w[2] == g and w[0] <= e["end"] and w[1] > e["start"] for w in kept):
                    out[name[g] if g is not None else e["individual_id"]] += 1
        return out
