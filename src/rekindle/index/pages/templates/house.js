"use strict";
// A page knows its own address only here; without a script the place to fill in stays readable.
const base = document.documentElement.querySelector("[data-base]");
for (const box of document.querySelectorAll("pre.cmd")) {
  if (base) box.textContent = box.textContent.replaceAll(base.dataset.base, new URL("../../", location.href).href);
  const frame = document.createElement("div"), button = document.createElement("button");
  frame.className = "cmdbox";
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(box.textContent); } catch { getSelection().selectAllChildren(box); document.execCommand("copy"); }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
  box.replaceWith(frame);
  frame.append(box, button);
}
