"""Bills of materials: the same bytes for the same content, another name for other content."""

from __future__ import annotations

import json

from rekindle.formats.statement import render_bill


def test_the_same_content_has_the_same_bytes() -> None:
    parts = [{"type": "library", "name": "fmt"}]
    one = render_bill({"name": "torch", "type": "library"}, parts, tool_version="1")
    assert one == render_bill({"type": "library", "name": "torch"}, parts, tool_version="1")
    other = render_bill({"type": "library", "name": "torch"}, [*parts, *parts], tool_version="1")
    assert json.loads(one)["serialNumber"] != json.loads(other)["serialNumber"]


def test_the_form() -> None:
    bill = json.loads(render_bill({"name": "t"}, [{"name": "ü"}], tool_version="0.1"))
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    assert bill["metadata"]["component"] == {"name": "t"} and bill["components"] == [{"name": "ü"}]
    assert bill["metadata"]["tools"]["components"] == [{"type": "application", "name": "rekindle", "version": "0.1"}]
    assert bill["serialNumber"].startswith("urn:uuid:")
