"""Length of sound files from their headers, without reading the sound."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path
from typing import BinaryIO


def sound_seconds(path: Path) -> float | None:
    """Length of a sound file, s; None where its header does not say.

    Of wav files (whole numbers, floats, RF64) and flac files the header is read here; of others, or where that fails, by
    the package soundfile if it is installed. A wav file that is cut short is as long as what is there.
    """
    try:
        with path.open("rb") as file:
            start = file.read(4)
            found = _wav(file, path.stat().st_size) if start in (b"RIFF", b"RF64") else _flac(file, start)
    except (OSError, struct.error):
        found = None
    return found if found is not None else _by_soundfile(path)


def _wav(file: BinaryIO, size: int) -> float | None:
    """Bytes of sound over bytes per second of a file whose first four bytes are read."""
    if file.read(8)[4:] != b"WAVE":
        return None
    rate, long_size = 0, 0
    while len(head := file.read(8)) == 8:
        name, length = head[:4], struct.unpack("<I", head[4:])[0]
        if name == b"fmt ":
            # The byte rate may be wrong; frames of block align at the sample rate are not.
            fields = file.read(length)
            _, _, per_second, _, block = struct.unpack("<HHIIH", fields[:14])
            rate = per_second * block
        elif name == b"ds64":
            fields = file.read(length)
            long_size = struct.unpack("<Q", fields[8:16])[0]
        elif name == b"data":
            # Recorders that were switched off leave 0 or the largest number.
            length = long_size if length == 0xFFFFFFFF and long_size else length
            there = size - file.tell()
            held = there if length in (0, 0xFFFFFFFF) else min(length, there)
            return held / rate if rate else None
        else:
            file.seek(length, 1)
        if length % 2:
            file.seek(1, 1)
    return None


def _flac(file: BinaryIO, start: bytes) -> float | None:
    """Samples over samples per second of the first block, STREAMINFO."""
    if start != b"fLaC":
        return None
    block = file.read(38)
    if len(block) < 38 or block[0] & 0x7F:
        return None
    packed = int.from_bytes(block[14:22], "big")
    rate, samples = packed >> 44, packed & ((1 << 36) - 1)
    return samples / rate if rate and samples else None


def _by_soundfile(path: Path) -> float | None:
    if importlib.util.find_spec("soundfile") is None:
        return None
    import soundfile

    try:
        return float(soundfile.info(str(path)).duration) or None
    except (RuntimeError, OSError, TypeError, ValueError):
        return None
