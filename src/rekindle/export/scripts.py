"""A recipe into a script: ``sh``, ``bat``, ``dockerfile`` or ``github``. Templates hold the words, this the filters."""

from __future__ import annotations

import base64
import functools
import hashlib
from typing import TYPE_CHECKING, Any

from rekindle import __version__
from rekindle.errors import BadInput
from rekindle.export import quoting
from rekindle.export.images import choose_images
from rekindle.export.quoting import Quoted, plain_word
from rekindle.export.recipe import Recipe
from rekindle.export.toolchain import c_command, cxx_command, cxx_package, visual_studio

if TYPE_CHECKING:
    from jinja2 import Environment, Template

FORMATS = ("sh", "bat", "dockerfile", "github")
NAMES = {"sh": "{}.sh", "bat": "{}.bat", "dockerfile": "Dockerfile", "github": "{}.yml"}
_LINUX_PACKAGES = ("ca-certificates", "ccache", "git", "make", "pkg-config", "libopenblas-dev", "python3-venv")
RUNNER = "windows-2022"


def render(recipe: Recipe, kind: str, *, system: str = "linux", image: str | None = None) -> str:
    """The script's text, with LF; a batch file is written with CRLF by :func:`encode`."""
    compiler = recipe.plan.build.compiler if recipe.plan.build else None
    shared: dict[str, Any] = {
        "r": recipe,
        "version": Quoted(__version__),
        "name": plain_word(NAMES[kind].format(recipe.folder)),
        "compiler": cxx_command(compiler),
        "kepler": any(arch.startswith("3.") for arch in recipe.plan.arch_list),
    }
    if kind == "sh":
        return _template("build.sh.j2").render(shared)
    if kind == "bat":
        versions, toolset, words = visual_studio(compiler)
        return _template("build.bat.j2").render(
            shared,
            batch_set=quoting.batch_set,
            vs_range=Quoted(versions),
            vcvars_ver=Quoted(toolset),
            vs_words=words,
        )
    if kind == "dockerfile":
        if system == "windows":
            raise BadInput("a Dockerfile is for Linux, and this plan is for Windows", remedy="export it as bat")
        return _dockerfile(recipe, image, shared)
    if kind == "github":
        return _workflow(recipe, image, shared, windows=system == "windows")
    raise BadInput(f"{kind!r} is no format", remedy=f"one of {', '.join(FORMATS)}")


def encode(text: str, kind: str) -> bytes:
    """cmd reads labels wrongly in files without CRLF; everything else wants LF."""
    return text.replace("\n", "\r\n").encode() if kind == "bat" else text.encode()


def _dockerfile(recipe: Recipe, image: str | None, shared: dict[str, Any]) -> str:
    plan = recipe.plan
    package = plain_word(recipe.package)
    question = Quoted(
        f", {package}.cuda.is_available()" if recipe.package == "torch" and (plan.cuda or plan.rocm) else ""
    )
    flags = Quoted(" --gpus all" if plan.cuda else " --device /dev/kfd --device /dev/dri" if plan.rocm else "")
    if not recipe.builds:
        return _template("install.Dockerfile.j2").render(shared, cuda_question=question, gpu_flags=flags)
    return _template("Dockerfile.j2").render(
        shared,
        images=choose_images(plan, image),
        packages=_packages(recipe),
        script=Quoted(render(recipe, "sh")),
        cuda_question=question,
        gpu_flags=flags,
        numpy=f"numpy{plan.numpy}" if plan.numpy and not plan.numpy[:1].isdigit() else "numpy",
    )


def _workflow(recipe: Recipe, image: str | None, shared: dict[str, Any], *, windows: bool) -> str:
    script = render(recipe, "bat" if windows else "sh")
    if "${{" in script:
        raise BadInput("the script has '${{' in it, which a workflow would replace", remedy="export it as sh or bat")
    return _template("workflow.yml.j2").render(
        shared,
        windows=windows,
        runner=RUNNER,
        script=Quoted(script),
        script_name=plain_word("build.bat" if windows else "build.sh"),
        images=choose_images(recipe.plan, image) if recipe.builds and not windows else None,
        packages=_packages(recipe),
    )


def _packages(recipe: Recipe) -> tuple[str, ...]:
    compiler = recipe.plan.build.compiler if recipe.plan.build else None
    return tuple(dict.fromkeys((*_LINUX_PACKAGES, cxx_package(compiler))))


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rekindle.export"),
        # The output is no HTML: each value is quoted for its own language by a filter.
        autoescape=False,  # noqa: S701
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=quoting.only_quoted,
    )
    environment.filters.update(
        plain=plain_word,
        sh=quoting.sh_word,
        sh_words=quoting.sh_words,
        bat_words=quoting.batch_words,
        sh_name=quoting.sh_name,
        bat=quoting.batch_word,
        remark=quoting.batch_remark,
        docker=quoting.docker_word,
        yaml=quoting.yaml_word,
        yaml_expression=_yaml_expression,
        comment=quoting.comment,
        cc=c_command,
        minor=lambda version: plain_word(".".join(version.split(".")[:2])),
        delimiter=delimiter,
        base64=lambda content: Quoted("\n".join(_base64_lines(content))),
        base64_lines=_base64_lines,
        # Between quoted delimiters a shell reads nothing; the delimiter is made from the text.
        here_text=Quoted,
        unpercent=lambda text: Quoted(text.replace("%%", "%")),
        workflow_block=_workflow_block,
    )
    return environment


def _template(name: str) -> Template:
    return _environment().get_template(name)


def delimiter(text: str) -> Quoted:
    """A here-document's end that cannot occur in the text: it is made from the text's own hash."""
    return Quoted(f"END_{hashlib.sha256(text.encode()).hexdigest()[:12].upper()}")


def _workflow_block(text: str) -> Quoted:
    return Quoted("\n".join(f"          {line}".rstrip() for line in text.rstrip("\n").split("\n")))


def _base64_lines(content: bytes) -> list[Quoted]:
    text = base64.b64encode(content).decode("ascii")
    return [Quoted(text[at : at + 76]) for at in range(0, len(text), 76)]


def _yaml_expression(text: str) -> Quoted:
    """A scalar in which ``${{ … }}`` is meant."""
    import json

    return Quoted(json.dumps(text))
