"""What installers that choose wheels by GPU are to believe about a machine."""

from __future__ import annotations

from rekindle.model.document import Document


class VariantEnvironment(Document, frozen=True, kw_only=True):
    """``variant env``: variables to set, and what they cannot say."""

    variables: dict[str, str]
    notes: tuple[str, ...] = ()
