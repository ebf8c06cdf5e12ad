// All nodes, of which only those that can be seen are elements.

import { $, say } from "./dom.js";
import { draw } from "./bars.js";
import * as filters from "./filters.js";
import * as cellOf from "./cell.js";
import { count, dollars, dollarsOfMonth, plural } from "./text.js";

const WIDTH = 260; // of a cell, in pixels: the least
const TABLE = 760; // of a list that is shown as a table: the least
const ROOMY = 1040; // of one that also has bars
const BAR = 13; // the height of a bar
const BAR_OF_TABLE = 160; // and its width in a table
const PADDING = 16; // of a cell, left and right together
const MARGIN = 2; // rows beyond those that can be seen
const FRESH = 1500; // for how long a pod that has come is marked, in milliseconds

const box = $("nodes");
const space = box.querySelector(".space");
const cells = new Map(); // by the name of the node
const still = matchMedia("(prefers-reduced-motion: reduce)");

let all = []; // every node, ordered by name
let shown = []; // those that match, in the order that is asked for
let columns = 1;
let height = 1; // of a row, in pixels
let table = false; // a row for each node
let placed = false; // a node is known to have a zone, a capacity type or a pool
let wide = 1; // of a bar, in pixels
let resource = "cpu";
let current = ""; // the name of the node that has the focus when the list has
let open = () => {};
const arrived = new Map(); // by node: by pod, when it came

export const onOpen = (f) => (open = f);

const byName = new Intl.Collator("en", { numeric: true }).compare;
const share = (n) => (resource === "cpu" ? n.requestedCPU / Math.max(n.cpu, 1) : n.requestedMemory / Math.max(n.memory, 1));
// A node that never empties by itself comes after one that does.
const soon = (n) => (n.bin < 0 ? Infinity : n.bin);
const orders = {
  name: () => 0,
  emptiest: (a, b) => share(a) - share(b),
  dollars: (a, b) => (b.dollars ?? -1) - (a.dollars ?? -1),
  zone: (a, b) => byName(a.zone ?? "", b.zone ?? ""),
  pool: (a, b) => byName(a.pool ?? "", b.pool ?? ""),
  bin: (a, b) => (soon(a) === soon(b) ? 0 : soon(a) - soon(b)),
  newest: (a, b) => b.created - a.created,
};

// set takes the nodes as they are, and before, what they were.
export const set = (nodes, before) => {
  if (before.size > 0 && !still.matches) note(nodes, before);
  all = [...nodes.values()].sort((a, b) => byName(a.name, b.name));
  placed = all.some((n) => n.zone || n.capacityType || n.pool);
  filters.offer(all);
  arrange();
};

// note remembers which pods have come to which nodes.
const note = (nodes, before) => {
  const now = performance.now();
  for (const node of nodes.values()) {
    const was = before.get(node.name);
    if (was === node) continue;
    const had = new Set(was?.pods.map((p) => p.name));
    for (const pod of node.pods) {
      if (had.has(pod.name)) continue;
      if (!arrived.has(node.name)) arrived.set(node.name, new Map());
      arrived.get(node.name).set(pod.name, now);
    }
  }
  if (arrived.size) setTimeout(fade, FRESH + 50);
};

const fade = () => {
  const old = performance.now() - FRESH;
  for (const [node, pods] of arrived) {
    for (const [pod, at] of pods) if (at <= old) pods.delete(pod);
    if (pods.size === 0) arrived.delete(node);
    const cell = cells.get(node);
    if (cell) paint(cell);
  }
};

// arrange filters and orders.
export const arrange = () => {
  const found = filters.filter(all);
  shown = found.nodes;
  const order = orders[$("order").value];
  if ($("order").value !== "name") shown.sort(order); // stable: ties by name
  resource = $("resource").value;
  say($("matches"), found.asked ? sum() : "");
  render();
};

// sum says how many nodes match, and what they cost.
const sum = () => {
  const priced = shown.filter((n) => n.dollars !== undefined);
  const perHour = priced.reduce((all, n) => all + n.dollars, 0);
  const perMonth = priced.reduce((all, n) => all + n.dollarsPerMonth, 0);
  const missing = shown.filter((n) => n.unpriced).length;
  return [`${count(shown.length)} of ${plural(all.length, "node")}`, priced.length && `${dollars(perHour)}/h, ${dollarsOfMonth(perMonth)}/month`, missing && `${count(missing)} without a price`].filter(Boolean).join(", ");
};

// render makes the elements of the nodes that can be seen, and those alone.
export const render = () => {
  const inside = box.clientWidth - 8; // less its padding
  table = $("view").value === "table" && inside >= TABLE;
  height = cellOf.heightOf(table, placed);
  $("columns").hidden = !table;
  for (const e of [box, $("columns")]) {
    e.classList.toggle("table", table);
    e.classList.toggle("roomy", inside >= ROOMY);
  }
  columns = table ? 1 : Math.max(1, Math.floor(inside / WIDTH));
  wide = Math.max(1, Math.floor(inside / columns) - PADDING);
  const rows = Math.ceil(shown.length / columns);
  space.style.height = `${rows * height}px`;
  box.style.setProperty("--content", `${rows * height + 10}px`);
  const first = Math.max(0, Math.floor(box.scrollTop / height) - MARGIN) * columns;
  const last = (Math.ceil((box.scrollTop + box.clientHeight) / height) + MARGIN) * columns;
  const wanted = new Map();
  for (let i = first; i < Math.min(last, shown.length); i++) wanted.set(shown[i].name, i);
  if (!shown.some((n) => n.name === current)) current = shown[first]?.name ?? "";
  if (current && !wanted.has(current)) wanted.set(current, shown.findIndex((n) => n.name === current));
  for (const [name, cell] of cells) {
    if (!wanted.has(name)) {
      cell.remove();
      cells.delete(name);
    }
  }
  for (const [name, i] of wanted) {
    let cell = cells.get(name);
    if (!cell) {
      cell = make();
      cells.set(name, cell);
      space.append(cell);
    }
    place(cell, i);
    fill(cell, shown[i]);
  }
};

const make = () => {
  const cell = cellOf.make();
  cell.addEventListener("click", () => open(cell.node.name));
  cell.addEventListener("focus", () => {
    const before = cells.get(current);
    if (before) before.tabIndex = -1;
    current = cell.node.name;
    cell.tabIndex = 0;
  });
  return cell;
};

const place = (cell, i) => {
  cell.style.top = `${Math.floor(i / columns) * height}px`;
  cell.style.left = `${((i % columns) * 100) / columns}%`;
  cell.style.width = `${100 / columns}%`;
};

const fill = (cell, n) => {
  const look = `${resource} ${wide} ${height} ${table}`;
  cell.tabIndex = n.name === current ? 0 : -1;
  if (cell.node === n && cell.look === look) return;
  cell.node = n;
  cell.look = look;
  cell.style.height = `${height - 4}px`;
  cellOf.fill(cell, n, share(n), resource, table);
  paint(cell);
};

const paint = (cell) => draw(cell.lastChild, table ? BAR_OF_TABLE : wide, BAR, cell.node, resource, arrived.get(cell.node.name));

const repaint = () => {
  for (const cell of cells.values()) cell.look = "";
  render();
};

// move gives the focus to another node, and shows it.
const move = (by) => {
  const i = shown.findIndex((n) => n.name === current);
  const to = Math.max(0, Math.min(shown.length - 1, i + by));
  if (!shown[to]) return;
  current = shown[to].name;
  const top = Math.floor(to / columns) * height;
  if (top < box.scrollTop) box.scrollTop = top;
  if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
  render();
  cells.get(current)?.focus({ preventScroll: true });
};

box.addEventListener("keydown", (e) => {
  const page = Math.max(1, Math.floor(box.clientHeight / height)) * columns;
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[e.key];
  if (by === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  move(by);
});
box.addEventListener("scroll", () => requestAnimationFrame(render), { passive: true });
new ResizeObserver(repaint).observe(box);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => requestAnimationFrame(repaint));
for (const id of [...filters.controls, "order", "resource", "view"]) $(id).addEventListener("input", arrange);
$("columns").append(...cellOf.header());
$("controls").addEventListener("submit", (e) => e.preventDefault());
