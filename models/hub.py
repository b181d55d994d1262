"""Checkpoints of the Hugging Face hub: fetched once into its cache, taken from there ever after.

The transfer is huggingface_hub's; here is what is fetched, room for it on the disk, and a name for all that can fail.
"""

import errno
import logging
import os
import re
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import constants, get_cached_repo_tree, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    DryRunError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    IncompleteSnapshotError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import tqdm

from models.errors import CheckpointError
from models.progress import Progress, Report, size, unreported
from models.shards import WEIGHTS, check_files, damaged

log = logging.getLogger(__name__)

PATTERNS = ("*.json", "*.jinja", WEIGHTS)
"""What is fetched: configurations, tokenizer, template and safetensors. Nothing that runs code when it is read."""

CARD = "README.md"
"""Fetched where the hub can be asked, since it says what a conversion was made from; nothing lacks without it."""

WORKERS = 4
"""Files fetched side by side; each one that is cut off for good begins again, so not more than keep a line busy."""

_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT)
"""What the system says of a place where nothing can be written."""

_ID = re.compile(r"[\w.-]+/[\w.-]+")
_LOG_IN = "log in with `hf auth login` or set HF_TOKEN"


class HubError(CheckpointError):
    """A checkpoint could not be had from the hub or its cache."""


class MissingRepository(HubError):
    """The hub has no such repository, or hides it from this account."""


class MissingRevision(HubError):
    """The repository has no such branch, tag or commit."""


class ClosedRepository(HubError):
    """The repository is there, but not for this account: gated, or another refusal."""


class NotCached(HubError):
    """The hub cannot be asked, and its cache does not hold everything."""


class DiskFull(HubError):
    """The disk of the cache has less room than what is missing."""


class DownloadFailed(HubError):
    """The transfer ended for another reason; what was fetched whole is kept."""


@dataclass(frozen=True)
class Plan:
    """What the hub has of a repository, as far as it is wanted: bytes to fetch, by file name."""

    lacking: dict[str, int]

    @property
    def total(self) -> int:
        """Bytes to fetch."""
        return sum(self.lacking.values())


def is_hub_id(name: str) -> bool:
    """Whether `name` is spelled `owner/name`; a path that is spelled so counts as a path where it exists."""
    return _ID.fullmatch(name) is not None and not name.startswith(".")


def fetch(repo: str, revision: str | None = None, *, report: Report = unreported) -> Path:
    """The folder of a checkpoint on the hub, whole. Only what the cache lacks is fetched.

    A connection that is cut is taken up again where it stopped; after an interrupted run, whole files are kept and the
    others begin again. Without the hub (no network, or HF_HUB_OFFLINE) the snapshot in the cache serves.

    Args:
        repo: `owner/name`.
        revision: a branch, tag or commit; None for the main branch.
        report: told of the bytes as they come, on the downloading threads. What it raises ends the download.

    Raises:
        MissingRepository, MissingRevision, ClosedRepository: the hub says no.
        NotCached: the hub cannot be asked, and the cache lacks something.
        DiskFull: there is no room for what is missing.
        DownloadFailed: the transfer broke off.
        DamagedFile: the cache holds a file that is not whole, and the hub cannot be asked for it.
    """
    with _named(repo, revision):
        plan = _plan(repo, revision)
        if plan is not None and plan.lacking:
            _check_room(repo, plan.total)
            log.info("fetching %s: %d files, %s", repo, len(plan.lacking), size(plan.total))
            report(Progress("download", repo, 0, plan.total))
        folder = Path(
            snapshot_download(
                repo,
                revision=revision,
                allow_patterns=[*PATTERNS, *([] if plan is None else [CARD])],
                max_workers=WORKERS,
                tqdm_class=_counting(repo, plan.total if plan else 0, report),
            )
        )
        if plan is not None:
            _mend(repo, folder, report)
    check_files(folder)
    return folder


def cached(repo: str, revision: str | None = None) -> Path:
    """The folder of a checkpoint in the cache; nothing is fetched, and the hub is not asked.

    Raises:
        NotCached: it is not there, or not all of it.
        MissingRepository: no name of a repository.
    """
    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(PATTERNS), local_files_only=True))
    except HFValidationError as error:
        raise MissingRepository(f"{repo!r} is no name of a repository: {error}") from error
    except LocalEntryNotFoundError as error:
        what = _what_lacks(repo, revision, error)
        raise NotCached(f"{_spelled(repo, revision)}: the cache in {constants.HF_HUB_CACHE} {what}") from error


def _plan(repo: str, revision: str | None) -> Plan | None:
    """What would be fetched; None where the hub cannot be asked or says no (the download itself tells why)."""
    try:
        files = snapshot_download(
            repo,
            revision=revision,
            allow_patterns=[*PATTERNS, CARD],
            dry_run=True,
            tqdm_class=_counting(repo, 0, unreported),
        )
    except DryRunError:
        return None
    return Plan({file.filename: file.file_size or 0 for file in files if file.will_download})


def _mend(repo: str, folder: Path, report: Report) -> None:
    """Fetch again what lies damaged in the cache, which would otherwise stay so for ever."""
    for file in damaged(folder):
        log.warning("%s of %s is damaged in the cache (%s); it is fetched again", file.file.name, repo, file.why)
        hf_hub_download(
            repo,
            file.file.relative_to(folder).as_posix(),
            revision=folder.name,
            force_download=True,
            tqdm_class=_counting(repo, 0, report),
        )


def free_bytes(folder: Path) -> int:
    """Room on the disk of a folder, which need not be there yet."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return shutil.disk_usage(there).free


def _check_room(repo: str, needed: int) -> None:
    """Raises DiskFull where the disk of the cache has less than `needed` bytes free."""
    cache = Path(constants.HF_HUB_CACHE).expanduser()
    free = free_bytes(cache)
    if free < needed:
        raise DiskFull(
            f"{repo}: {size(needed)} are still to be fetched, and the disk of {cache} has {size(free)} "
            "free: make room, or set HF_HOME to a folder on a larger disk"
        )


def _counting(repo: str, total: int, report: Report) -> type[tqdm]:
    """A progress bar for huggingface_hub that draws nothing and reports the bytes written instead."""
    lock = threading.Lock()

    class Counting(tqdm):
        """Bars are made for bytes received, bytes written and files; those of bytes written count."""

        def __init__(self, *args: object, **kwargs: object) -> None:
            self.counts = kwargs.get("unit") == "B" and not str(kwargs.get("name")).endswith(".transfer")
            super().__init__(*args, **kwargs | {"disable": True})

        def update(self, n: float | None = 1) -> None:
            if not self.counts:
                return
            with lock:
                self.n += int(n or 0)
                done = self.n
            report(Progress("download", repo, done, max(total or int(self.total or 0), done)))

    return Counting


@contextmanager
def _named(repo: str, revision: str | None) -> Generator[None]:
    """Give what huggingface_hub raises a name of ours, with the facts and what to do."""
    at = _spelled(repo, revision)
    try:
        yield
    except GatedRepoError as error:
        raise ClosedRepository(
            f"{repo} is gated: accept its terms on {constants.ENDPOINT}/{repo}, then {_LOG_IN}"
        ) from error
    except RepositoryNotFoundError as error:
        raise MissingRepository(
            f"the hub has no checkpoint {repo!r}, or it is private: check the name, or {_LOG_IN} with an account "
            "that may read it"
        ) from error
    except RevisionNotFoundError as error:
        raise MissingRevision(
            f"{repo} has no revision {revision!r}: name a branch, a tag or a commit of {constants.ENDPOINT}/{repo}"
        ) from error
    except HFValidationError as error:
        raise MissingRepository(f"{repo!r} is no name of a repository: {error}") from error
    except LocalEntryNotFoundError as error:
        raise _not_had(at, repo, revision, error) from error
    except HfHubHTTPError as error:
        raise _refused(repo, error) or DownloadFailed(f"{at}: {_answered(error)}; {_then(error)}") from error
    # The transfer's own failures: httpx2's are no OSErrors, hf_xet's may be RuntimeErrors.
    except (OSError, HTTPError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise DiskFull(
                f"{at}: the disk of {constants.HF_HUB_CACHE} is full; make room, or set HF_HOME to a folder on a "
                "larger disk, and start again: files that are whole are kept"
            ) from error
        closed = isinstance(error, OSError) and error.errno in _CLOSED
        advice = "set HF_HOME to a folder of yours" if closed else "start again: files that are whole are kept"
        raise DownloadFailed(f"{at} could not be fetched ({error}); {advice}") from error


def _spelled(repo: str, revision: str | None) -> str:
    return f"{repo} at revision {revision}" if revision else repo


def _refused(repo: str, error: BaseException | None) -> HubError | None:
    """The hub's answer, where it says that this account may not read."""
    if not isinstance(error, HfHubHTTPError) or error.response.status_code not in (401, 403):
        return None
    return ClosedRepository(f"{repo} is not open to this account ({_answered(error)}): {_LOG_IN}")


def _answered(error: HfHubHTTPError) -> str:
    return f"the hub answered with status {error.response.status_code}"


def _then(error: HfHubHTTPError) -> str:
    """What helps against such an answer."""
    match error.response.status_code:
        case 429:
            return f"that is too many requests for now: wait some minutes, or {_LOG_IN} (accounts may ask more often)"
        case 408 | 500 | 502 | 503 | 504:
            return "the trouble is the hub's own: try again later"
        case _:
            return f"is {constants.ENDPOINT} the hub? HF_ENDPOINT names it"


def _not_had(at: str, repo: str, revision: str | None, error: LocalEntryNotFoundError) -> HubError:
    """The hub cannot be asked, or did not answer as it should; say why, and what the cache lacks."""
    match error.__cause__:
        case OfflineModeIsEnabled():
            why = "HF_HUB_OFFLINE is set"
        case HfHubHTTPError() as answer:
            what = _what_lacks(repo, revision, error)
            told = f"{at}: {_answered(answer)}, and the cache {what}; {_then(answer)}"
            return _refused(repo, answer) or NotCached(told)
        case cause:
            why = "the hub cannot be reached" + (f" ({type(cause).__name__})" if cause else "")
    return NotCached(
        f"{at}: {why}, and the cache {_what_lacks(repo, revision, error)}. Start once with a network (or "
        f"`hf download {repo}`), or copy the files here and name their folder"
    )


def _what_lacks(repo: str, revision: str | None, error: LocalEntryNotFoundError) -> str:
    lacking = _lacking(repo, revision, error.snapshot_path) if isinstance(error, IncompleteSnapshotError) else []
    return f"lacks {', '.join(lacking)} of it" if lacking else "does not hold it"


def _lacking(repo: str, revision: str | None, snapshot: str) -> list[str]:
    """Wanted files of a cached listing that are not in the snapshot."""
    try:
        listed = [file.path for file in get_cached_repo_tree(repo, revision=revision)]
    except CachedRepoTreeNotFoundError:
        return []
    wanted = [path for path in listed if any(fnmatch(path, pattern) for pattern in PATTERNS)]
    return sorted(path for path in wanted if not os.path.isfile(os.path.join(snapshot, path)))
