"""The scripts that do the work on a machine (sh, bat, ps1), what a pack says and runs, and the templates that all
formats are written with. Templates hold the words; what they write of a value has been quoted for its language
(:mod:`.quoting`)."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import textwrap
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from rekindle import __version__
from rekindle.model.pack import Pack
from rekindle.model.plan import Plan
from rekindle.model.spoken import spoken_bytes
from rekindle.model.toml import read_beside, toml_text
from rekindle.scripts import quoting
from rekindle.scripts.quoting import Quoted, plain_word
from rekindle.scripts.recipe import Recipe, cxx_command, cxx_package, visual_studio
from rekindle.toolkits.compilers import c_compiler_of

if TYPE_CHECKING:
    from jinja2 import Environment, Template

# Each form of a plan with its file's usual name, the system it runs on and how it is used.
FORMATS = read_beside(__file__, "formats.toml", dict[str, dict[Literal["file", "system", "use"], str]])
_LINUX_PACKAGES = ("ca-certificates", "ccache", "git", "make", "pkg-config", "libopenblas-dev", "python3-venv")


def shared_values(recipe: Recipe, kind: str) -> dict[str, Any]:
    return {
        "r": recipe,
        "version": Quoted(__version__),
        "name": plain_word(FORMATS[kind]["file"].format(recipe.folder)),
        "compiler": cxx_command(recipe.compiler),
        "kepler": any(arch.startswith("3.") for arch in recipe.plan.arch_list),
    }


def render_script(recipe: Recipe, kind: Literal["sh", "bat", "ps1"]) -> str:
    """The script for one shell, with LF."""
    plan = recipe.plan
    studio = visual_studio(recipe.compiler)
    off = recipe.env.get("USE_CUDNN", "1").upper() in ("0", "OFF", "NO", "FALSE")
    return find_template(f"build.{kind}.j2").render(
        shared_values(recipe, kind),
        batch_set=quoting.batch_set,
        vs_ranges=tuple(Quoted(f' -version "{versions}"') for versions in studio.ranges),
        vs_versions=studio.ranges,
        toolset=Quoted(studio.toolset),
        vcvars_ver=Quoted(f" -vcvars_ver={studio.toolset}" if studio.toolset else ""),
        vs_words=studio.words,
        driver_numbers=[plain_word(part) for part in [*recipe.driver.split("."), "00"][:2]] if recipe.driver else (),
        cudnn=plain_word(plan.cudnn.split(".")[0]) if plan.cuda and plan.cudnn and not off else None,
        mkl=any(word.startswith("mkl-include") for word in recipe.requirements),
    )


def linux_packages(recipe: Recipe) -> tuple[str, ...]:
    """What Debian and Ubuntu must bring for a build."""
    return (*_LINUX_PACKAGES, cxx_package(recipe.compiler))


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rekindle.scripts"),
        # The output is no HTML: each value is quoted for its own language by a filter.
        autoescape=False,  # noqa: S701
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        finalize=quoting.only_quoted,
    )
    environment.filters.update(
        plain=plain_word,
        sh=quoting.sh_word,
        sh_words=quoting.sh_words,
        bat_words=lambda texts: Quoted(" ".join(map(quoting.batch_word, texts))),
        sh_name=quoting.variable_name,
        bat=quoting.batch_word,
        ps=quoting.ps_word,
        remark=quoting.batch_remark,
        docker=quoting.docker_word,
        yaml=quoting.yaml_word,
        # A scalar in which ``${{ … }}`` is meant.
        yaml_expression=lambda text: Quoted(json.dumps(text)),
        toml=lambda text: Quoted(toml_text(quoting.plain_text(text))),
        comment=quoting.comment,
        cc=c_compiler_of,
        minor=lambda version: plain_word(".".join(version.split(".")[:2])),
        # A here-document's end that cannot occur in the text: it is made from the text's own hash.
        delimiter=lambda text: Quoted(f"END_{hashlib.sha256(text.encode()).hexdigest()[:12].upper()}"),
        base64=lambda content: Quoted("\n".join(_base64_lines(content))),
        base64_lines=_base64_lines,
        # Between quoted delimiters a shell reads nothing.
        here_text=Quoted,
        # For people alone; no program reads it.
        words=Quoted,
        unpercent=lambda text: Quoted(text.replace("%%", "%")),
        workflow_block=lambda text: Quoted(textwrap.indent(text.rstrip("\n"), " " * 10)),
    )
    return environment


def find_template(name: str) -> Template:
    """A template of ours; it refuses to write a value that nobody quoted."""
    return _environment().get_template(name)


def _base64_lines(content: bytes) -> list[Quoted]:
    text = base64.b64encode(content).decode("ascii")
    return [Quoted(text[at : at + 76]) for at in range(0, len(text), 76)]


def pack_texts(pack: Pack, plan: Plan) -> dict[str, bytes]:
    """The files by name; without packages (a pack of sources) there is nothing to install and so no script."""
    size = spoken_bytes(sum(package.bytes or 0 for package in pack.packages))
    texts = {"README.txt": find_template("pack_readme.txt.j2").render(pack=pack, plan=plan, size=size).encode()}
    if not pack.packages:
        return texts
    program = resources.files("rekindle.scripts").joinpath("pack_install.py").read_bytes().replace(b"\r\n", b"\n")
    windows = pack.system == "windows"
    major, minor = pack.python.split(".")[:2]
    script = find_template("pack.bat.j2" if windows else "pack.sh.j2").render(
        title=pack.title,
        version=Quoted(__version__),
        python=plain_word(f"{major}.{minor}"),
        major=int(major),
        minor=int(minor),
        digest=Quoted(hashlib.sha256(program).hexdigest()),
    )
    name = "install.bat" if windows else "install.sh"
    return texts | {"install.py": program, name: (script.replace("\n", "\r\n") if windows else script).encode("utf-8")}
