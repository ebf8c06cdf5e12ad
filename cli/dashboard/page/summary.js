// The figures at the top.

import { $, el, say } from "./dom.js";
import { clock, count, dollars, dollarsOfMonth, percent, plural, watts } from "./text.js";

// meter is a labelled share.
const meter = (name, share) => {
  const fill = el("i");
  fill.style.width = `${Math.min(100, 100 * share)}%`;
  return el("div", "", el("dt", "", name), el("dd", "", el("b", "", percent(share)), el("span", "track", fill)));
};

// notes says what is left out of figures that are current.
export const notes = (all) => {
  $("notes").hidden = all.length === 0;
  $("notes").replaceChildren(...all.map((note) => el("li", "", note)));
};

// blank are the figures before anything is known.
const blank = { priced: 0, powered: 0, says: {} };

export const show = (figures, state) => {
  const live = state.state === "live";
  const s = figures ?? blank;
  say($("dollars"), s.priced ? dollars(s.dollars) : "–");
  say($("month"), s.priced ? dollarsOfMonth(s.dollarsPerMonth) : "–");
  say($("priced"), s.says.priced ?? "");
  bills(s);
  say($("watts"), s.powered ? watts(s.watts) : "–");
  say($("powered"), s.says.powered ?? "");
  say($("node-count"), figures ? count(s.nodes) : "–");
  say($("node-states"), s.says.nodes ?? "");
  say($("pod-count"), figures ? count(s.pods) : "–");
  say($("pod-states"), (live ? s.says.pending : s.says.waited) ?? "");
  const meters = JSON.stringify([s.requestedCPU, s.requestedMemory]);
  if ($("requested").shown !== meters) {
    $("requested").shown = meters;
    $("requested").replaceChildren(...(figures ? [meter("CPU", s.requestedCPU), meter("Memory", s.requestedMemory)] : []));
  }
  document.title = `${live ? (s.priced ? dollars(s.dollars) + "/h · " : "") : state.label + " · "}Supercargo`;
};

// bills sets what the pods could cost. What they cost when that was computed is a row of its own only if it is no longer
// what they cost now.
const bills = (s) => {
  const a = s.audit;
  const text = JSON.stringify([a ?? null, s.says.audit]);
  if ($("bills").shown === text) return;
  $("bills").shown = text;
  say($("audited"), (s.says.audit ?? "").replaceAll("{at}", clock(1000 * (a?.at ?? 0))));
  remarks(a?.notes ?? []);
  if (!a?.at) {
    $("bills").replaceChildren();
    return;
  }
  const most = Math.max(a.now.dollars, a.homogeneous?.dollars ?? 0, 1e-9);
  const row = (name, bill) => billRow(name, bill, bill.dollars / most);
  $("bills").replaceChildren(
    ...(a.changed ? [row("At the audit", a.now)] : []),
    row("Moving pods alone", a.moved),
    ...(a.homogeneous ? [row(s.says.homogeneous, a.homogeneous)] : []),
    row("Cheapest found", a.cheapest),
    row("Lower bound", { dollars: a.bound, dollarsPerMonth: a.boundPerMonth, watts: a.boundWatts }),
  );
};

// remarks lists what the audit assumes and leaves out.
const remarks = (all) => {
  $("remarks").hidden = all.length === 0;
  say($("remarks-count"), plural(all.length, "note"));
  $("remarks-list").replaceChildren(...all.map((text) => el("li", "", text)));
};

// billRow is what machines cost, and how much that is beside the most.
const billRow = (name, bill, share) => {
  const fill = el("i");
  fill.style.width = `${Math.min(100, 100 * share)}%`;
  const track = el("span", "track", fill);
  return el("div", "", el("dt", "", name), ...[
    `${dollars(bill.dollars)}/h`, `${dollarsOfMonth(bill.dollarsPerMonth)}/month`,
    bill.nodes === undefined ? "" : plural(bill.nodes, "node"), bill.watts ? watts(bill.watts) : "",
  ].map((text) => el("dd", "", text)), el("dd", "bar", track));
};
