"""The public names: the one list of them. Type checkers read it as it stands; ``__init__.py`` reads it for where each
function lies, and loads that file when the function is first asked for."""

# ruff: noqa: I001
from rekindle.api.build_wheels import (
    build as build,
    build_checks as build_checks,
    build_script as build_script,
    save_bug_report as save_bug_report,
)
from rekindle.api.bundle_wheel import bundle as bundle
from rekindle.api.claims import verify_claims as verify_claims
from rekindle.api.table import decision_table as decision_table, export_table as export_table
from rekindle.api.examine_machine import doctor as doctor
from rekindle.api.explain_log import (
    explain as explain,
    explain_command as explain_command,
    explain_report as explain_report,
    explain_try as explain_try,
    explain_watch as explain_watch,
    installed_torch as installed_torch,
)
from rekindle.api.export_plan import export as export
from rekindle.api.facts import facts_check as facts_check, facts_format as facts_format
from rekindle.api.graft_wheel import graft as graft, graft_apply as graft_apply
from rekindle.api.guard_torch import guard as guard
from rekindle.api.guide_pages import guide as guide
from rekindle.api.index import (
    index_add as index_add,
    index_build as index_build,
    index_check as index_check,
    index_search as index_search,
    index_serve as index_serve,
    index_sync as index_sync,
    index_yank as index_yank,
)
from rekindle.api.inspect_wheel import (
    inspect as inspect,
    inspect_diff as inspect_diff,
    inspect_machine as inspect_machine,
    inspect_page as inspect_page,
    inspect_shelf as inspect_shelf,
)
from rekindle.api.keepings import clean as clean, holdings as holdings
from rekindle.api.claims import (
    key_list as key_list,
    key_new as key_new,
    key_sign as key_sign,
    key_trust as key_trust,
    sign_results as sign_results,
)
from rekindle.api.page import index_page as index_page
from rekindle.api.plan_torch import (
    choose_torch as choose_torch,
    find_machine as find_machine,
    plan as plan,
    remember_plan as remember_plan,
    this_machine as this_machine,
)
from rekindle.api.proofs import (
    check_shareable as check_shareable,
    review_records as review_records,
    share_proof as share_proof,
)
from rekindle.api.rebuild_wheel import rebuild as rebuild
from rekindle.api.source import (
    find_tree as find_tree,
    source_fetch as source_fetch,
    source_fill as source_fill,
    source_hipify as source_hipify,
    source_patch as source_patch,
    source_status as source_status,
    source_unpatch as source_unpatch,
)
from rekindle.api.variables import configure as configure
from rekindle.api.variant_plugin import variant_environment as variant_environment
from rekindle.api.verify_torch import (
    compare_verifications as compare_verifications,
    verify as verify,
    verify_page as verify_page,
)
from rekindle.explain.rule import explain_list as explain_list, explain_rule as explain_rule
from rekindle.facts.browse import facts_show as facts_show, facts_sources as facts_sources
from rekindle.farm.scheduler import farm_down as farm_down, farm_status as farm_status, farm_up as farm_up
from rekindle.farm.worker import farm_join as farm_join, farm_slurm as farm_slurm
from rekindle.journey.adopt import adopt as adopt
from rekindle.journey.demo import demo as demo
from rekindle.journey.matrix import (
    matrix_cancel as matrix_cancel,
    matrix_plan as matrix_plan,
    matrix_publish as matrix_publish,
    matrix_run as matrix_run,
    matrix_simulate as matrix_simulate,
    matrix_slurm as matrix_slurm,
    matrix_status as matrix_status,
    matrix_watch as matrix_watch,
)
from rekindle.journey.matrix_propose import matrix_propose as matrix_propose
from rekindle.journey.pack import pack as pack
from rekindle.journey.pack_folder import pack_check as pack_check
from rekindle.journey.matrix_work import matrix_cell as matrix_cell
from rekindle.journey.up import bring_torch as bring_torch, up as up
from rekindle.plan.describe import (
    machine_from_flags as machine_from_flags,
    machine_profile as machine_profile,
    with_hardware as with_hardware,
)
from rekindle.plan.solve import why_not as why_not
from rekindle.source.history import save_patches as save_patches
from rekindle.source.rewrite import rewrite_cmake as rewrite_cmake
from rekindle.inspect.targets import holds_wheels as holds_wheels

__all__: list[str]
