"""``farm``: one build on many machines. A scheduler here, workers wherever there are machines, ended together."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from rekindle.farm.scheduler import end_farm, raise_farm, report_farm
from rekindle.farm.worker import join_by_ssh, join_here, slurm_join
from rekindle.host.live import LiveHost
from rekindle.model.farm import FarmDown, FarmJoin, FarmReport, FarmUp
from rekindle.model.progress import Progress, Silent
from rekindle.toolkits.sccache import farm_at


def farm_up(
    *,
    farm: Path | None = None,
    listen: str | None = None,
    url: str | None = None,
    cache: str | None = None,
    invite: Sequence[str] = (),
    client: bool = False,
    worker: bool = False,
    scratch: Path | None = None,
    private_network: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> FarmUp:
    """Start a farm's scheduler here (``listen``: at which address), and a worker beside it where ``worker`` says so.

    Each address in ``invite`` gets a line for ``farm_join`` there; ``client`` makes one for somebody who builds. The
    lines hold tokens. What is written and started already stays: the same call again only invites.

    >>> farm_up(farm=folder, listen="8.8.8.8")
    Traceback (most recent call last):
    rekindle.errors.BadInput: 8.8.8.8 is open to the world, and tokens would travel there in clear
    """
    host, folder, listener = LiveHost(), farm_at(farm), progress or Silent()
    raised = raise_farm(
        host,
        folder,
        listen=listen,
        url=url,
        cache=cache,
        invite=invite,
        client=client,
        private_network=private_network,
        dry_run=dry_run,
        progress=listener,
    )
    if not worker or dry_run:
        return raised
    return replace(raised, worker=join_here(host, folder, None, scratch=scratch, progress=listener))


def farm_join(
    line: str | None = None,
    *,
    farm: Path | None = None,
    address: str | None = None,
    scratch: Path | None = None,
    ssh: str | None = None,
    remote: str = "rekindle",
    wait: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> FarmJoin:
    """Enter a farm: with the ``line`` of an invitation, or without one where the folder has the farm's keys.

    Every need of a worker is tried first; one that is not met is a ``refused`` with its checks. ``ssh`` starts the
    worker on another machine, from where the scheduler is. ``wait`` returns when the worker has ended.

    >>> farm_join("rkfarm1.cut-in-the-middle", farm=folder)
    Traceback (most recent call last):
    rekindle.errors.BadInput: the invitation was not pasted whole
    """
    host, folder, listener = LiveHost(), farm_at(farm), progress or Silent()
    if ssh:
        return join_by_ssh(host, folder, ssh, address=address, remote=remote, dry_run=dry_run, progress=listener)
    return join_here(
        host, folder, line, address=address, scratch=scratch, wait=wait, dry_run=dry_run, progress=listener
    )


def farm_slurm(
    *, farm: Path | None = None, nodes: int = 4, cores: int = 8, memory_gib: int = 16, hours: int = 4
) -> FarmJoin:
    """A Slurm script that starts workers of this folder's farm, one on each node.

    >>> farm_slurm(farm=folder, nodes=8)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rekindle.errors.BadInput: there is no farm in ...
    """
    return slurm_join(farm_at(farm), nodes=nodes, cores=cores, memory_gib=memory_gib, hours=hours)


def farm_status(*, farm: Path | None = None) -> FarmReport:
    """The farm now: its machines, slots and load, what each compiled, and what failed with the reason.

    >>> farm_status(farm=folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rekindle.errors.BadInput: there is no farm in ...
    """
    return report_farm(farm_at(farm))


def farm_down(*, farm: Path | None = None, forget: bool = False, progress: Progress | None = None) -> FarmDown:
    """End what was started from this folder; ``forget`` removes its files and with them every token.

    >>> farm_down(farm=folder).ended
    ()
    """
    return end_farm(farm_at(farm), forget=forget, progress=progress or Silent())
