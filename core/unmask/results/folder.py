"""A run folder: every finished cell is kept, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from unmask.errors import UserError
from unmask.results.atomic import write_atomically
from unmask.results.lock import FolderLock
from unmask.results.outcome import CellOutcome, CleanOutcome

__all__ = ["RunFolder"]

_MAGIC = b"unmask-outcome 1\n"
_LAYOUT = 1
_HASH = 64
"""Characters of a hash."""

AnyOutcome = TypeVar("AnyOutcome", CellOutcome, CleanOutcome)


class RunFolder:
    """The folder of one run: ``run.json`` says which, ``cells/`` holds what is finished.

    Args:
        path: The folder; made when missing.
        fingerprint: What the outcomes depend on, a hash or a short text for each part (every model, the
            samples, every attack, every setting). A folder that belongs to another fingerprint is refused.
        fresh: Start anew: a folder with another run in it is moved aside (``<name>.1``, ``.2``, ...).
        exclusive: Keep other processes out until `release`.
        warn: Told, in a sentence, when there is no room for a finished cell any more.

    A finished cell that cannot be written, as on a full disk, waits in memory; it is tried again with every
    later cell and when the folder is left, so that room made meanwhile is enough.

    Attributes:
        path: The folder.
        resumed: It already held this run.
        warnings: Sentences about files that were damaged and count as missing, or could not be written.

    Raises:
        UserError: The path is a file or cannot be written to, or the folder belongs to another run or is in
            use by one.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fingerprint: Mapping[str, str],
        *,
        fresh: bool = False,
        exclusive: bool = False,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self.warnings: list[str] = []
        self._warn = warn or (lambda words: None)
        self._waiting: dict[Path, bytes] = {}
        self._writing = threading.Lock()  # cells of several workers end at once
        self._fingerprint = dict(fingerprint)
        self._lock: FolderLock | None = None
        try:
            if self.path.exists() and not self.path.is_dir():
                raise UserError("is a file; a run needs a folder. Choose another place.", file=str(self.path))
            self._open(fresh, exclusive)
        except OSError as error:
            self.release()
            raise UserError(
                f"cannot be used as a run folder: {error}. Choose another place.", file=str(self.path)
            ) from error
        except BaseException:
            self.release()
            raise

    def _open(self, fresh: bool, exclusive: bool) -> None:
        if exclusive and self.path.exists():
            self._lock = FolderLock(self.path)
        if fresh and self._record.exists():
            aside = _move_aside(self.path)
            if self._lock is not None:
                self._lock.moved(aside)
                self.release()
        (self.path / "cells").mkdir(parents=True, exist_ok=True)
        if not os.access(self.path / "cells", os.W_OK | os.X_OK):
            raise PermissionError("it may not be written to")
        if exclusive and self._lock is None:
            self._lock = FolderLock(self.path)
        self.resumed = self._record.exists()
        if self.resumed:
            self._check_fingerprint()
        else:
            self._write_record()

    def _write_record(self) -> None:
        record = {"layout": _LAYOUT, "fingerprint": self._fingerprint}
        write_atomically(self._record, json.dumps(record, indent=2) + "\n")

    def release(self) -> None:
        """Let other processes have the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._write_waiting()
        self.release()

    @property
    def _record(self) -> Path:
        return self.path / "run.json"

    def _check_fingerprint(self) -> None:
        way_out = (
            "Start anew with --fresh (the old run is moved aside, not deleted), or choose another folder."
        )
        try:
            record = json.loads(self._record.read_text(encoding="utf-8"))
            known, layout = dict(record["fingerprint"]), record["layout"]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"is damaged, so the run cannot go on. {way_out}", file=str(self._record)
            ) from error
        if layout != _LAYOUT:
            raise UserError(f"was written by another version of Unmask. {way_out}", file=str(self._record))
        now = self._fingerprint
        changed = [
            f"{part} ({_difference(known.get(part), now.get(part))})"
            for part in sorted({*known, *now})
            if known.get(part) != now.get(part)
        ]
        if changed:
            raise UserError(
                f"holds another run; what differs: {', '.join(changed)}. {way_out}", file=str(self.path)
            )

    def save_cell(self, key: Mapping[str, Any], outcome: CellOutcome) -> None:
        """Keeps a finished cell (or shard); one with failed or missing samples is left to be done again.

        Args:
            key: What names the cell (model, attack, epsilon, shard, ...), JSON-able.
            outcome: What it found.
        """
        if outcome.finished:
            extra = {"seconds": outcome.seconds, "message": outcome.message}
            self._write("cell", key, outcome.arrays(), extra)
            with contextlib.suppress(OSError):
                self._place("part", key)[0].unlink(missing_ok=True)

    def save_part(self, key: Mapping[str, Any], outcome: CellOutcome) -> None:
        """Keeps the outcome of the first samples of a cell that is not finished, if there is room."""
        extra = {"seconds": outcome.seconds, "message": outcome.message}
        path, content = self._packed("part", key, outcome.arrays(), extra)
        with contextlib.suppress(OSError):  # the whole cell is kept when it ends
            write_atomically(path, content)

    def load_part(self, key: Mapping[str, Any]) -> CellOutcome | None:
        """As `load_cell`, for what `save_part` kept."""
        return self._read("part", key, CellOutcome)

    def load_cell(self, key: Mapping[str, Any]) -> CellOutcome | None:
        """The cell as it was kept, or None; a damaged file counts as missing and is named in `warnings`."""
        return self._read("cell", key, CellOutcome)

    def save_clean(self, key: Mapping[str, Any], outcome: CleanOutcome) -> None:
        """Keeps what a model says about the clean images."""
        self._write("clean", key, outcome.arrays(), {})

    def load_clean(self, key: Mapping[str, Any]) -> CleanOutcome | None:
        """As `load_cell`, for clean images."""
        return self._read("clean", key, CleanOutcome)

    def _place(self, kind: str, key: Mapping[str, Any]) -> tuple[Path, str]:
        # The run is part of the name: nothing of another one is ever taken, whatever became of its record.
        text = json.dumps([kind, dict(key), self._fingerprint], sort_keys=True, separators=(",", ":"))
        return self.path / "cells" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.{kind}", text

    def _packed(
        self, kind: str, key: Mapping[str, Any], arrays: Mapping[str, Any], extra: Mapping[str, Any]
    ) -> tuple[Path, bytes]:
        path, text = self._place(kind, key)
        buffer = io.BytesIO()
        header = np.frombuffer(json.dumps({"key": text, **extra}).encode(), dtype=np.uint8)
        np.savez_compressed(buffer, header=header, **arrays)
        content = buffer.getvalue()
        checksum = hashlib.sha256(content).hexdigest().encode()
        return path, b"".join((_MAGIC, checksum, b"\n", content))

    def _write(
        self, kind: str, key: Mapping[str, Any], arrays: Mapping[str, Any], extra: Mapping[str, Any]
    ) -> None:
        path, content = self._packed(kind, key, arrays, extra)
        with self._writing:
            first = not self._waiting
            self._waiting[path] = content
        error = self._write_waiting()
        if error is not None and first:
            self._warn(
                f"{self.path}: a finished cell cannot be kept: {error}. What was kept so far is safe; the "
                "run goes on and tries again. Make room, or mend what is in the way, meanwhile."
            )

    def _write_waiting(self) -> OSError | None:
        """Write what waits for room; the first error, where something still cannot be."""
        first = None
        with self._writing:
            for path in list(self._waiting):
                try:
                    # Code of plugins may have done away with it.
                    path.parent.mkdir(parents=True, exist_ok=True)
                    if not self._record.exists():
                        self._write_record()
                    write_atomically(path, self._waiting[path])
                except OSError as error:
                    first = first or error
                    if error.errno == errno.ENOSPC:
                        break
                else:
                    del self._waiting[path]
        return first

    def notes(self) -> list[str]:
        """`warnings`, and how many finished cells still wait for room."""
        if not self._waiting:
            return self.warnings
        words = (
            f"{len(self._waiting)} finished cells could not be kept in {self.path}; a rerun computes them."
        )
        return [*self.warnings, words]

    def _read(self, kind: str, key: Mapping[str, Any], made: type[AnyOutcome]) -> AnyOutcome | None:
        path, text = self._place(kind, key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self.warnings.append(f"{path}: cannot be read ({error}); it is computed again.")
            return None
        start = len(_MAGIC) + 65
        checksum = hashlib.sha256(content[start:]).hexdigest().encode()
        if content[:start] != _MAGIC + checksum + b"\n":
            self.warnings.append(f"{path}: is damaged or cut short; it is computed again.")
            return None
        try:
            with np.load(io.BytesIO(content[start:]), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            header = json.loads(arrays.pop("header").tobytes())
            found = header.pop("key")
            outcome = made(**arrays, **header)
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            self.warnings.append(f"{path}: does not hold an outcome ({error}); it is computed again.")
            return None
        if found != text:
            self.warnings.append(f"{path}: belongs to another cell; it is computed again.")
            return None
        return outcome


def _difference(known: str | None, now: str | None) -> str:
    """How two values of a fingerprint differ; hashes tell nothing more."""
    if known is None or now is None:
        return "new" if known is None else "gone"
    if max(len(known), len(now)) < _HASH:
        return f"{known}, now {now}"
    return "changed"


def _move_aside(path: Path) -> Path:
    """Renames the folder to the first free ``<name>.<number>`` beside it, which is returned."""
    path = path.absolute()
    number = 1
    while (aside := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    path.rename(aside)
    return aside
