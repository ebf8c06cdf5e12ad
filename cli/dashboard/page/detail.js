// The pods of one node, in a dialog that changes with them.

import { $, el, facts, say } from "./dom.js";
import { colour } from "./bars.js";
import { bin, bytes, clock, cores, dollars, dollarsOfMonth, percent, plural, span, watts } from "./text.js";

const dialog = $("detail");
let name = "";

export const open = (node, now) => {
  name = node.name;
  update(node, now);
  dialog.showModal();
};

// refresh shows what has become of the node that is open. known says that the nodes of the cluster are known.
export const refresh = (nodes, now, known) => {
  if (!dialog.open) return;
  const node = nodes.get(name);
  if (node) update(node, now);
  else if (known) say($("detail-title"), `${name} no longer exists`);
};

// emptiness says what runs on a node without work; pods of the system are the last ones.
const emptiness = (n) => (n.pods.length === 0 ? "0, it is empty" : n.pods[0].class === "system" ? "0, it has only pods of the system" : "");

// expected says when a pod is expected to finish, or was.
const expected = (finish, now) => {
  const left = finish - now / 1000;
  return `${clock(1000 * finish)}, ${left < 0 ? `${span(-left)} ago` : `in ${span(left)}`}`;
};

const update = (n, now) => {
  say($("detail-title"), n.name);
  facts($("facts"), [
    ["Machine type", n.type ?? ""], ["Zone", n.zone ?? ""], ["Capacity type", n.capacityType ?? ""], [n.fleet ? "NodeFleet" : "Pool", n.pool ?? ""], ["Accepts", n.class === "any" ? "all pods" : `${n.class} pods`],
    ["State", [n.ready ? "ready" : "not ready", n.cordoned && "cordoned", n.emptying && `being emptied by ${n.emptying}`].filter(Boolean).join(", ")],
    ["Price", n.dollars === undefined ? n.unpriced || "unknown" : `${dollars(n.dollars)} per hour, ${dollarsOfMonth(n.dollarsPerMonth)} per month`],
    ["Power", n.watts === undefined ? "" : `${watts(n.watts)}, modelled`],
    ["CPU", `${cores(n.requestedCPU)} of ${cores(n.cpu)} requested, ${percent(n.requestedCPU / Math.max(n.cpu, 1))}`],
    ["Memory", `${bytes(n.requestedMemory)} of ${bytes(n.memory)} requested, ${percent(n.requestedMemory / Math.max(n.memory, 1))}`],
    ["Time bin", emptiness(n) || bin(n.bin)],
    ["Age", span(now / 1000 - n.created)],
    ["Not listed", n.morePods ? plural(n.morePods, "pod") : ""],
  ]);
  $("detail-pods").replaceChildren(...n.pods.map((p) => {
    const swatch = el("i", "swatch");
    swatch.style.background = colour(p);
    const head = el("th", "", swatch, p.name, p.state ? el("span", "tag", p.state) : null);
    head.scope = "row";
    return el("tr", "", head, el("td", "", p.class), el("td", "", p.class === "system" ? "–" : bin(p.bin)),
      el("td", "", p.finish ? expected(p.finish, now) : "–"), el("td", "", cores(p.cpu)), el("td", "", bytes(p.memory)));
  }));
};

$("close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (e) => e.target === dialog && dialog.close());
