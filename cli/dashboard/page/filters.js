// Which nodes are shown: those that match the words and the choices.

import { $, el } from "./dom.js";
import { count } from "./text.js";

// choices are what nodes can be chosen by: the id of a <select> and the field of a node.
const choices = [["zone", "zone"], ["capacity", "capacityType"], ["pool", "pool"]];
const NONE = " none"; // the choice of nodes without the field; no name begins with a space

const byName = new Intl.Collator("en", { numeric: true }).compare;

// offer sets what can be chosen. A choice that no node has any longer stays until it is undone.
export const offer = (all) => {
  for (const [id, field] of choices) {
    const select = $(id);
    const counts = new Map();
    for (const n of all) counts.set(n[field] || NONE, (counts.get(n[field] || NONE) ?? 0) + 1);
    const chosen = select.value;
    if (chosen && !counts.has(chosen)) counts.set(chosen, 0);
    const text = JSON.stringify([...counts]);
    if (select.shown === text) continue;
    select.shown = text;
    select.closest("label").hidden = counts.size < 2;
    const option = (value, name) => Object.assign(el("option", "", name), { value });
    select.replaceChildren(option("", "all"), ...[...counts.keys()].sort(byName).map((v) => option(v, `${v === NONE ? "none" : v} (${count(counts.get(v))})`)));
    select.value = chosen;
  }
};

// filter returns the nodes that match, and whether anything is asked for.
export const filter = (all) => {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const asked = choices.map(([id, field]) => [field, $(id).value]).filter(([, value]) => value);
  const has = (n, word) => [n.name, n.type, n.pool, n.zone, n.capacityType, n.class].some((text) => text?.toLowerCase().includes(word)) || n.pods.some((p) => p.name.includes(word));
  const matches = (n) => asked.every(([field, value]) => (n[field] || NONE) === value) && words.every((word) => has(n, word));
  return { nodes: words.length || asked.length ? all.filter(matches) : all.slice(), asked: words.length + asked.length > 0 };
};

export const controls = ["filter", ...choices.map(([id]) => id)];
