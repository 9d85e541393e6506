"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(key, value);
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };

  // ---- searching: what people type is rarely what vendors print
  const NOISE = /\b(nvidia|amd|ati|geforce|graphics|gpu|card|series|edition|corporation|intel|cpu|processor)\b|\(r\)|\(tm\)|[®™]/g;
  const plain = (text) => text.toLowerCase().replace(NOISE, " ").replace(/\b(laptop|notebook)\b/g, "mobile").replace(/[^a-z0-9]+/g, " ").trim();
  const tight = (text) => plain(text).replace(/ /g, "");
  function distance(a, b, most) {
    if (Math.abs(a.length - b.length) > most) return most + 1;
    let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
    for (let i = 1; i <= a.length; i++) {
      const row = [i];
      let least = i;
      for (let j = 1; j <= b.length; j++) {
        row[j] = Math.min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a[i - 1] !== b[j - 1]));
        if (row[j] < least) least = row[j];
      }
      if (least > most) return most + 1;
      previous = row;
    }
    return previous[b.length];
  }
  function rank(item, query, words, squeezed) {
    if (item.exact.includes(query)) return 0;
    if (item.tight === squeezed) return 1;
    if (item.tight.startsWith(squeezed)) return 2 + item.tight.length / 1000;
    if (words.every((word) => item.words.includes(word))) return 3 + item.tight.length / 1000;
    if (item.tight.includes(squeezed)) return 4 + item.tight.length / 1000;
    if (words.every((word) => item.plain.includes(word))) return 5 + item.tight.length / 1000;
    if (item.detail && words.every((word) => item.all.includes(word))) return 6;
    const most = squeezed.length > 7 ? 2 : squeezed.length > 3 ? 1 : 0;
    if (!most) return null;
    const near = Math.min(distance(squeezed, item.tight, most), distance(squeezed, item.full, most));
    return near <= most ? 7 + near / 10 + item.tight.length / 1000 : null;
  }
  const entry = (label, detail, value, exact = []) => {
    const p = plain(label);
    return { label, detail, value, exact: exact.concat(label.toLowerCase()), plain: p, words: p.split(" "), tight: p.replace(/ /g, ""), full: label.toLowerCase().replace(/[^a-z0-9]+/g, ""), all: p + " " + plain(detail || "") };
  };
  function find(items, text) {
    const query = text.trim().toLowerCase();
    if (!query) return items.slice(0, 60);
    const words = plain(text).split(" ").filter(Boolean), squeezed = tight(text);
    if (!squeezed) return items.filter((item) => item.all.includes(query)).slice(0, 60);
    return items.map((item) => [rank(item, query, words, squeezed), item]).filter((pair) => pair[0] !== null)
      .sort((a, b) => a[0] - b[0]).slice(0, 60).map((pair) => pair[1]);
  }

  // ---- a combobox as the ARIA practices describe it
  function combobox(input, list, items, choose) {
    let shown = [], active = -1, chosen = null;
    const close = () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); active = -1; };
    const mark = (index) => {
      active = index;
      [...list.children].forEach((node, i) => node.setAttribute("aria-selected", String(i === index)));
      const node = list.children[index];
      if (node) { input.setAttribute("aria-activedescendant", node.id); node.scrollIntoView({ block: "nearest" }); }
    };
    const open = () => {
      shown = find(items, chosen && chosen.label === input.value ? "" : input.value);
      list.replaceChildren(...shown.map((item, i) => {
        const node = make("li", { role: "option", id: `${list.id}-${i}`, "aria-selected": "false" }, make("span", {}, item.label), make("small", {}, item.detail || ""));
        node.addEventListener("mousedown", (event) => { event.preventDefault(); pick(item); });
        return node;
      }));
      if (!shown.length) list.append(make("li", { class: "empty", role: "option", "aria-disabled": "true", "aria-selected": "false" }, "Nothing known by that name. Try the chip's architecture, such as sm_61 or gfx1030."));
      list.hidden = false;
      input.setAttribute("aria-expanded", "true");
      if (shown.length && input.value.trim() && !(chosen && chosen.label === input.value)) mark(0);
    };
    const pick = (item) => { chosen = item; input.value = item ? item.label : ""; close(); choose(item); };
    input.addEventListener("input", () => { chosen = null; open(); });
    input.addEventListener("focus", () => input.select());
    input.addEventListener("click", () => { if (list.hidden) open(); });
    input.addEventListener("blur", () => { if (!list.hidden && shown.length && active >= 0 && input.value.trim()) pick(shown[active]); else close(); if (!input.value.trim()) pick(null); });
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        if (list.hidden) return open();
        mark((active + (event.key === "ArrowDown" ? 1 : -1) + shown.length) % Math.max(1, shown.length));
      } else if (event.key === "Enter") {
        event.preventDefault();
        if (!list.hidden && active >= 0 && shown[active]) pick(shown[active]);
      } else if (event.key === "Escape") { if (!list.hidden) { event.stopPropagation(); close(); } else { pick(null); } }
      else if (event.key === "Home" && !list.hidden) mark(0);
      else if (event.key === "End" && !list.hidden) mark(shown.length - 1);
    });
    return { set: (item) => { chosen = item; input.value = item ? item.label : ""; } };
  }

  const archEntry = (name, i) => entry(name, name.startsWith("sm_") ? `compute capability ${name.slice(3, -1)}.${name.slice(-1)}` : name.startsWith("gfx") ? "AMD architecture" : "Intel architecture", { arch: i, name: null }, name.startsWith("sm_") ? [`${name.slice(3, -1)}.${name.slice(-1)}`, name.replace("sm_", "compute_")] : []);
  const gpuItems = [entry("No graphics card", "CPU only", { arch: 0, name: null }, ["none", "cpu"])]
    .concat(data.cards.map(([name, arch, detail]) => entry(name, `${data.archs[arch]} · ${detail}`, { arch, name })))
    .concat(data.archs.slice(1).map((name, i) => archEntry(name, i + 1)));
  const title = (name) => name.replace(/_/g, " ").replace(/\b[a-z]/g, (c) => c.toUpperCase()).replace("X86 64", "x86-64").replace("bridge", " Bridge");
  const cpuItems = data.cpus.map(([name, products, stands]) => entry(title(name), products + (stands && stands !== name ? ` (planned as ${title(stands)})` : ""), { cpu: stands, name }, [name]));

  // ---- state, kept in the address so that an answer can be sent to somebody
  const state = { gpu: null, cpu: null, place: "linux", python: "", driver: "" };
  const read = (part) => { const value = data.parts[part]; return Array.isArray(value) ? value.map(read) : value; };
  const oldCpu = () => state.cpu && data.places.find((p) => p.id === state.place).cpus.includes(state.cpu.value.cpu) ? state.cpu.value.cpu : "";
  // A bare branch ("470") means the newest driver of it.
  const numbers = (text) => /^\d{1,6}(\.\d{1,6}){0,4}$/.test(text) ? (text.includes(".") ? text : `${text}.999999`).split(".").map(Number) : null;
  const older = (a, b) => { for (let i = 0; i < Math.max(a.length, b.length); i++) if ((a[i] || 0) !== (b[i] || 0)) return (a[i] || 0) < (b[i] || 0); return false; };
  const driverSteps = () => state.gpu && (data.drivers[state.place] || {})[data.archs[state.gpu.value.arch]];
  // What the driver says to the reader's choice: null where it does not count, "" where the page knows it, else why not.
  function driverProblem() {
    if (!state.driver || !driverSteps()) return null;
    if (!numbers(state.driver)) return "A driver is a number, such as 470 or 535.183.01.";
    return (state.python || oldCpu()) && !runsAll(plainAnswer().cuda) ? "With so old a driver, or one too new for the card, this page knows the answer for any Python and a processor with AVX2. For yours:" : "";
  }
  // Does the driver run this CUDA as the one that came with it does? Then it changes nothing in a plan but the words about it.
  function runsAll(cuda) {
    const { kits, cards } = data.spans[state.place], driver = numbers(state.driver), [first, below] = cards[data.archs[state.gpu.value.arch]];
    return Boolean(cuda && kits[cuda]) && !older(driver, numbers(kits[cuda])) && !older(driver, numbers(first)) && !(below && driver[0] >= below);
  }
  const answerAt = (index) => Object.fromEntries(data.fields.map((name, i) => [name, read(data.answers[index][i])]));
  const plainAnswer = () => answerAt(data.cells[state.place][oldCpu()][data.pythons.indexOf(state.python)][state.gpu.value.arch]);
  function answerFor() {
    if (driverProblem() !== "") return plainAnswer();
    if (!state.python && !oldCpu()) return answerAt(driverSteps().filter(([first]) => !older(numbers(state.driver), numbers(first))).pop()[1]);
    const a = plainAnswer();
    a.because.push(`Driver ${state.driver} runs CUDA ${a.cuda}.`);
    a.warnings = a.warnings.filter((warning) => warning.code !== "driver-needed");
    a.alternatives = a.alternatives.filter((way) => !way.cuda || runsAll(way.cuda));
    return a;
  }
  const words = (text) => {
    const { arch, name } = state.gpu.value, full = `${data.name} (${data.archs[arch]})`;
    return text.split(full).join(name ? `${name} (${data.archs[arch]})` : data.archs[arch]).split(data.name).join(name || data.archs[arch]).split(data.driver).join(state.driver);
  };

  function save() {
    const query = new URLSearchParams();
    if (state.gpu) query.set("gpu", state.gpu.label);
    if (state.gpu && state.gpu.value.name && data.cards.filter((c) => c[0] === state.gpu.label).length > 1) query.set("arch", data.archs[state.gpu.value.arch]);
    if (state.place !== "linux") query.set("os", state.place);
    if (state.python) query.set("python", state.python);
    if (state.cpu) query.set("cpu", state.cpu.value.name);
    if (driverProblem() !== null) query.set("driver", state.driver);
    history.replaceState(null, "", "#" + query);
  }
  function load() {
    const query = new URLSearchParams(location.hash.slice(1));
    if (data.places.some((p) => p.id === query.get("os"))) state.place = query.get("os");
    if (data.pythons.includes(query.get("python") || "")) state.python = query.get("python") || "";
    const gpu = query.get("gpu"), arch = query.get("arch");
    state.gpu = gpu ? gpuItems.find((i) => i.label === gpu && (!arch || data.archs[i.value.arch] === arch)) || find(gpuItems, gpu)[0] || null : null;
    state.cpu = cpuItems.find((i) => i.value.name === query.get("cpu")) || null;
    state.driver = (query.get("driver") || "").slice(0, 40);
    gpuBox.set(state.gpu); cpuBox.set(state.cpu); $("place").value = state.place; $("python").value = state.python; $("driver").value = state.driver;
    show();
  }

  // ---- the answer
  const VERDICT = { install: ["✓", "Install it: an official wheel runs there"], build: ["⚒", "Build it: no official wheel runs there, but your own can"], graft: ["✚", "Graft it: the official wheel gets the code for this card, in minutes"], none: ["✕", "No way is known"] };
  const source = (text) => text ? make("details", { class: "src" }, make("summary", {}, "source"), make("span", {}, text)) : null;
  const listOf = (items, cls) => make("ul", { class: cls }, ...items.map((item) => typeof item === "string" ? make("li", {}, words(item)) : make("li", {}, words(item.text), source(item.source))));
  function copyButton(text) {
    const button = make("button", { type: "button", class: "copy" }, "Copy");
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(text); } catch {
        const area = make("textarea", { style: "position:fixed;opacity:0" }); area.value = text; document.body.append(area); area.select(); document.execCommand("copy"); area.remove();
      }
      button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1600);
    });
    return button;
  }
  // A line breaks between words only: half an option cannot be read.
  const unbroken = (text) => text.split(/(\s+)/).map((word) => /\S/.test(word) ? make("span", {}, word) : word);
  const commandBox = (text) => make("div", { class: "cmdbox" }, make("pre", { class: "cmd", tabindex: "0", "aria-label": "Command" }, ...unbroken(text)), copyButton(text));
  function hours(minutes) { const h = (m) => m < 90 ? `${m} min` : `${(m / 60).toFixed(m < 600 ? 1 : 0)} h`; return `${h(minutes[0])} to ${h(minutes[1])}`; }

  function show() {
    const box = $("answer");
    $("cli").replaceChildren(...unbroken(cliCommand()));
    save();
    const problem = driverProblem();
    $("driver-field").hidden = !driverSteps();
    $("driver-note").textContent = problem && !numbers(state.driver) ? problem : "";
    if (!state.gpu) { box.replaceChildren(); $("house").replaceChildren(); houses(); return; }
    if (problem) {
      box.replaceChildren(...(numbers(state.driver) ? [make("p", { class: "lead" }, problem), commandBox(cliCommand())] : []));
      houses();
      return;
    }
    const a = answerFor(), name = state.gpu.value.name || state.gpu.label;
    const [sign, verdict] = VERDICT[a.answer];
    const what = a.answer === "none" ? `No PyTorch is known for ${name} there` : `PyTorch ${a.torch}${a.variant ? " · " + a.variant : a.cuda ? " · CUDA " + a.cuda : ""}`;
    const chips = [["GPU", state.gpu.value.arch ? `${name} · ${data.archs[state.gpu.value.arch]}` : name], ["driver", problem === "" && state.driver], ["Python", a.python], ["CUDA", a.cuda], ["ROCm", a.rocm], ["cuDNN", a.cudnn], ["NumPy", a.numpy],
      ["build time", a.minutes && hours(a.minutes)], ["disk", a.disk_gib && `${a.disk_gib} GiB`], ["memory", a.memory_gib && `${a.memory_gib} GiB`]].filter((chip) => chip[1]);
    const body = make("div", { class: "body" }, make("ul", { class: "chips" }, ...chips.map(([key, value]) => make("li", {}, `${key} `, make("b", {}, value)))));
    if (a.commands.length) body.append(commandBox(words(a.commands.join("\n"))));
    if (a.because.length) body.append(make("h2", {}, "Why"), listOf(a.because, "why"));
    if (a.changes.length) body.append(make("h2", {}, "What had to change"), listOf(a.changes.map((c) => `${c.what}: ${c.from ?? "–"} → ${c.to ?? "–"}. ${c.why}`), "why"));
    if (a.warnings.length) body.append(make("h2", {}, "Take care"), listOf(a.warnings, "why warn"));
    if (a.losses && a.losses.length) body.append(make("h2", {}, "What will not work"), listOf(a.losses, "why lost"));
    const newest = newestOfficial(a);
    if (newest) body.append(make("h2", {}, "Newest official wheel for this card"), make("p", {}, newest));
    if (a.alternatives.length) body.append(make("h2", {}, "Other ways"), alternatives(a.alternatives));
    const companions = state.python || state.cpu || problem === "" || !data.companions[state.place] ? [] : read(data.companions[state.place][state.gpu.value.arch]);
    if (companions.length) body.append(make("details", {}, make("summary", {}, "What else runs beside it"), besides(companions), make("p", {}, "Why, and the commands: ", make("code", {}, `${cliCommand()} --with NAME`))));
    box.replaceChildren(make("div", { class: `result ${a.answer}` }, make("div", { class: "verdict" }, make("div", { class: "sign", "aria-hidden": "true" }, sign), make("div", {}, make("h2", {}, what), make("p", {}, verdict))), body));
    houses();
  }
  function newestOfficial(a) {
    const ways = [a].concat(a.alternatives).filter((way) => way.answer === "install" && way.torch && (way.cuda || way.rocm || !state.gpu.value.arch));
    if (!state.gpu.value.arch || !ways.length) return state.gpu.value.arch ? "None has code for it." : null;
    const key = (v) => v.split("+")[0].split(".").reduce((sum, part) => sum * 1000 + (parseInt(part, 10) || 0), 0);
    const best = ways.reduce((x, y) => key(y.torch) > key(x.torch) ? y : x);
    return `torch ${best.torch} (${best.variant || "CUDA " + best.cuda})${best.python ? ", Python " + best.python : ""}`;
  }
  const alternatives = (rows) => make("table", { class: "rows" }, make("thead", {}, make("tr", {}, ...["", "torch", "for", "Python", "why"].map((t) => make("th", { scope: "col" }, t)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, make("td", {}, make("span", { class: `pill ${row.answer}` }, row.answer)), make("td", {}, row.torch || "–"), make("td", {}, row.variant || (row.cuda ? `CUDA ${row.cuda}` : row.rocm ? `ROCm ${row.rocm}` : "CPU")), make("td", {}, row.python || "–"), make("td", {}, words(row.why || ""))))));
  const BESIDE = { runs: ["install", "runs"], last: ["install", "last version"], build: ["build", "from source"], alternative: ["build", "by others"], none: ["none", "does not run"], unknown: ["none", "unknown"] };
  const besides = (rows) => make("table", { class: "rows" }, make("thead", {}, make("tr", {}, ...["package", "", "which"].map((t) => make("th", { scope: "col" }, t)))),
    make("tbody", {}, ...rows.map(([name, answer, which]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, make("span", { class: `pill ${BESIDE[answer][0]}` }, BESIDE[answer][1])), make("td", {}, which)))));
  function cliCommand() {
    if (!state.gpu) return "rekindle plan";
    const place = data.places.find((p) => p.id === state.place), parts = ["rekindle plan --gpu", state.gpu.value.arch === 0 ? "none" : /\s/.test(state.gpu.label) ? `"${state.gpu.label}"` : state.gpu.label, "--os", place.system, "--arch", place.machine];
    if (state.cpu && state.cpu.value.cpu) parts.push("--cpu", state.cpu.value.name);
    if (state.python) parts.push("--python", state.python);
    if (driverProblem() !== null && numbers(state.driver)) parts.push("--driver", state.driver);
    return parts.join(" ");
  }

  // ---- the wheelhouse
  const size = (bytes) => bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1e3)} kB`;
  const shelf = data.wheels;
  const wheelAt = (row) => { const [file, project, bytes, sha256, shape, proofs] = row; return { file, project: shelf.projects[project], bytes, sha256, proofs, ...shelf.shapes[shape] }; };
  const home = () => new URL(data.base || ".", location.href);
  const path = (...parts) => parts.map(encodeURIComponent).join("/");
  function houses() {
    if (!shelf.rows.length) return;
    const place = data.places.find((p) => p.id === state.place);
    // Thousands of wheels share a few shapes, so each shape is asked once.
    const fitting = shelf.shapes.map((w) => (w.systems.includes("any") || w.systems.includes(place.system)) && (w.machines.includes("any") || w.machines.includes(place.machine)) && (!state.python || w.pythons.includes(state.python) || w.pythons.some((p) => p.startsWith("py") || p.endsWith("-abi3"))));
    const page = (w) => new URL(`wheel/${path(w.project, w.file)}.html`, home()).href;
    const nodes = [make("h2", {}, `In this wheelhouse (${shelf.rows.length} wheel${shelf.rows.length === 1 ? "" : "s"})`)];
    const all = () => make("p", {}, make("a", { href: new URL("wheel/", home()).href }, `all ${shelf.rows.length}`));
    if (!state.gpu) {
      const newest = [];
      for (const row of shelf.rows) if (fitting[row[4]] && shelf.shapes[row[4]].yanked === null && newest.push(wheelAt(row)) > 30) break;
      nodes.push(make("p", { class: "lead" }, "Choose a card to see which of them run on it, or look at one."));
      nodes.push(make("ul", { class: "why" }, ...newest.slice(0, 30).map((w) => make("li", {}, make("a", { href: page(w) }, w.file), " ", make("span", { class: "soft" }, size(w.bytes) + (w.proofs ? " · proven" : ""))))));
      if (newest.length > 30) nodes.push(all());
      $("house").replaceChildren(...nodes);
      return;
    }
    const verdicts = data.verdicts[state.gpu.value.arch];
    const found = [[], []];
    for (const row of shelf.rows) { const verdict = fitting[row[4]] && verdicts[shelf.shapes[row[4]].kind]; if (verdict) found[verdict[0]].push([row, verdict[1]]); }
    const some = [...found[1].map((one) => [1, ...one]), ...found[0].map((one) => [0, ...one])];
    if (!some.length) nodes.push(make("p", { class: "lead" }, "None of them runs on that."));
    for (const [number, [runs, row, why]] of some.slice(0, 20).entries()) {
      const w = wheelAt(row), url = new URL(`wheels/${path(w.project, w.file)}`, home()).href;
      const command = commandBox(`pip install "${w.project} @ ${url}#sha256=${w.sha256}"`);
      nodes.push(make("div", { class: "wheel" }, make("div", { class: "file" }, make("span", { class: `pill ${runs ? "install" : "build"}` }, runs ? "runs" : "cannot tell"), " ", make("a", { href: page(w) }, w.file)),
        make("p", {}, why + (w.proofs ? ` · verified ${w.proofs}×` : "") + (w.cpu ? ` · CPU from ${w.cpu}` : "") + (w.glibc ? ` · glibc ${w.glibc}` : "") + ` · ${size(w.bytes)}`),
        w.code.length ? make("p", { class: "mono" }, w.code.join(" ")) : null, number ? make("details", {}, make("summary", {}, "Install it"), command) : command));
    }
    if (some.length > 20) nodes.push(make("p", {}, `and ${some.length - 20} older ones`), all());
    $("house").replaceChildren(...nodes);
  }

  // ---- the matrix
  const CELLS = { h: ["●", "has code for it"], s: ["○", "runs code of an older chip of the same generation"], j: ["◐", "compiles PTX when it starts"], o: ["◌", "runs its neighbour's code under an override"], c: ["◒", "runs, but its cuDNN has no code for it"], u: ["?", "it is not known whether it runs"], "-": ["", "has no code for it"] };
  function matrix() {
    const vendor = $("m-vendor").value, place = $("m-place").value, minor = $("m-torch").value;
    const { columns, [place]: all } = data.matrix[vendor];
    const rows = all.filter((row) => !minor || row[0] === minor);
    const mine = state.gpu ? columns.indexOf(data.archs[state.gpu.value.arch]) : -1;
    const head = make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "torch · variant"), ...columns.map((name, i) => make("th", { scope: "col", class: i === mine ? "mine" : undefined }, make("span", {}, name)))));
    let last = null;
    const body = make("tbody", {}, ...rows.map(([torch, variant, version, why, cells]) => {
      const row = make("tr", { class: last !== null && last !== torch ? "break" : undefined });
      last = torch;
      const label = make("button", { type: "button", "data-tip": `torch ${torch} ${variant}: ${why}` }, `${torch} `, make("b", {}, variant));
      row.append(make("th", { scope: "row" }, label));
      [...cells].forEach((cell, i) => row.append(make("td", { class: (cell === "-" ? "n" : cell) + (i === mine ? " mine" : ""), "data-tip": `torch ${torch} ${variant}, ${columns[i]}: ${CELLS[cell][1]}. Source: ${why}`, "aria-label": CELLS[cell][1] }, CELLS[cell][0])));
      return row;
    }));
    $("table").replaceChildren(make("caption", { hidden: "" }, "Official wheels and the architectures they have code for"), head, body);
    if (!rows.length) $("table").replaceChildren(make("tbody", {}, make("tr", {}, make("th", {}, "No official wheels there."))));
  }
  const tip = make("div", { class: "tip", role: "tooltip", hidden: "" });
  document.body.append(tip);
  const tell = (event) => {
    const node = event.target.closest && event.target.closest("[data-tip]");
    tip.hidden = !node;
    if (!node) return;
    tip.textContent = node.dataset.tip;
    const box = node.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${box.bottom + 6 + tip.offsetHeight > innerHeight ? box.top - tip.offsetHeight - 6 : box.bottom + 6}px`;
  };
  for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, tell);
  document.addEventListener("focusout", () => { tip.hidden = true; });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

  // ---- wiring
  const gpuBox = combobox($("gpu"), $("gpu-list"), gpuItems, (item) => { state.gpu = item; show(); });
  const cpuBox = combobox($("cpu"), $("cpu-list"), cpuItems, (item) => { state.cpu = item; show(); });
  for (const p of data.places) { $("place").append(make("option", { value: p.id }, p.label)); $("m-place").append(make("option", { value: p.id }, p.label)); }
  for (const p of data.pythons) $("python").append(make("option", { value: p }, p || "any"));
  $("place").addEventListener("change", () => { state.place = $("place").value; show(); });
  $("python").addEventListener("change", () => { state.python = $("python").value; show(); });
  $("driver").addEventListener("input", () => { state.driver = $("driver").value.trim(); show(); });
  $("form").addEventListener("submit", (event) => event.preventDefault());
  for (const text of ["Tesla K40c", "GeForce GTX 1080 Ti", "GeForce RTX 5070", "Radeon RX 6700 XT", "No graphics card"]) {
    const item = gpuItems.find((i) => i.label === text);
    if (!item) continue;
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", () => { gpuBox.set(item); state.gpu = item; show(); });
    $("tries").append(button);
  }
  const torches = [...new Set(["nvidia", "amd"].flatMap((v) => data.places.flatMap((p) => data.matrix[v][p.id].map((row) => row[0]))))].sort((a, b) => b.localeCompare(a, undefined, { numeric: true }));
  $("m-torch").append(make("option", { value: "" }, "all"), ...torches.map((t) => make("option", { value: t }, t)));
  for (const id of ["m-vendor", "m-place", "m-torch"]) $(id).addEventListener("change", matrix);
  $("legend").append(...Object.entries(CELLS).map(([key, [sign, text]]) => make("li", {}, make("i", { class: key === "-" ? "n" : key }, sign), text)));
  function view(which) {
    for (const name of ["find", "matrix"]) { $(name).hidden = name !== which; $(`tab-${name}`).setAttribute("aria-pressed", String(name === which)); }
    if (which === "matrix") { $("m-place").value = state.place; if (state.gpu && state.gpu.value.arch) $("m-vendor").value = data.archs[state.gpu.value.arch].startsWith("gfx") ? "amd" : "nvidia"; matrix(); }
  }
  $("tab-find").addEventListener("click", () => view("find"));
  $("tab-matrix").addEventListener("click", () => view("matrix"));
  const remembered = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  if (remembered()) document.documentElement.dataset.theme = remembered();
  $("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* file:// may have no storage */ }
  });
  $("date").textContent = data.generated;
  addEventListener("hashchange", load);
  load();
  document.documentElement.dataset.ready = "true";
})();
