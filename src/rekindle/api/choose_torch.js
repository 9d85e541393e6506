// Reads the decision table that "rekindle export table" writes: which torch for a card, a system, a driver and a Python.
//
//   const { chooseTorch } = require("./choose_torch.js");
//   const table = require("./torch-table.json");
//   chooseTorch(table, { pci: "10de:1b80", system: "windows", driver: "537.13", python: "3.12" });
//
// machine: pci      "vendor:device" in hexadecimal, or null without a card
//          system   one of table.systems
//          driver   NVIDIA's driver as nvidia-smi tells it, or null where it is not known
//          python   "3.12"
// answer:  { answer: "install", torch, variant, python, pip, env, warnings, cpu }
//          pip: what follows "pip install", one list for each call; env: variables to set whenever torch is used;
//          cpu: what to install instead where no wheel serves the card. answer "build" or "graft": a torch can be
//          made for it, "none": there is none; "unknown": the table does not know this card, system or Python.
"use strict";

const SCHEMA = 1;

function numbers(version) {
  const found = /^v?(\d+(?:\.\d+)*)/.exec(String(version));
  return found ? found[1].split(".").map(Number) : null;
}

// -1, 0 or 1; missing numbers count as zero, so 470 equals 470.0.
function compare(left, right) {
  const a = numbers(left);
  const b = numbers(right);
  for (let place = 0; place < Math.max(a.length, b.length); place += 1) {
    const difference = (a[place] || 0) - (b[place] || 0);
    if (difference !== 0) return difference < 0 ? -1 : 1;
  }
  return 0;
}

function unknown(why) {
  return { answer: "unknown", why, torch: null, variant: null, python: null, pip: [], env: {}, warnings: [], cpu: [] };
}

// The class of a card: an architecture such as "sm_61" or "gfx1030"; undefined where nobody knows it.
function cardClass(table, pci) {
  if (pci === null || pci === undefined) return "none";
  const [vendor, device] = String(pci).toLowerCase().split(":");
  return (table.devices[vendor] || {})[device];
}

// The last step whose driver is not newer than the one that is there; the first one where none is known.
function stepFor(steps, driver) {
  if (!driver || numbers(driver) === null) return steps[0];
  // A bare branch ("470") means the newest driver of it.
  const there = numbers(driver).length === 1 ? `${driver}.99999` : driver;
  let chosen = steps[0];
  for (const step of steps.slice(1)) {
    if (compare(step[0], there) <= 0) chosen = step;
  }
  return chosen;
}

function chooseTorch(table, machine) {
  if (table.schema !== SCHEMA) throw new Error(`a table of schema ${SCHEMA} is needed, not ${table.schema}`);
  const card = cardClass(table, machine.pci);
  if (card === undefined || !(card in table.rules)) return unknown(`the card ${machine.pci} is not in the table`);
  const systems = table.rules[card];
  if (!(machine.system in systems)) return unknown(`the system ${machine.system} is not in the table`);
  const steps = systems[machine.system][machine.python];
  if (steps === undefined) return unknown(`Python ${machine.python} is not in the table`);
  const row = table.answers[stepFor(steps, machine.driver)[1]];
  return { ...row, warnings: row.warnings.map((place) => table.warnings[place]) };
}

module.exports = { chooseTorch, cardClass, compare };
