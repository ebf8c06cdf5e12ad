// All nodes, of which only those that can be seen are elements.

import { $, el, say } from "./dom.js";
import { draw } from "./bars.js";
import { dollars, percent, plural } from "./text.js";

const HEIGHT = 62; // of a cell, in pixels
const WIDTH = 260; // the least
const BAR = 13; // the height of a bar
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
let wide = 1; // of a bar, in pixels
let resource = "cpu";
let current = ""; // the name of the node that has the focus when the list has
let open = () => {};
const arrived = new Map(); // by node: by pod, when it came

export const onOpen = (f) => (open = f);

const share = (n) => (resource === "cpu" ? n.requestedCPU / Math.max(n.cpu, 1) : n.requestedMemory / Math.max(n.memory, 1));
// A node that never empties by itself comes after one that does.
const soon = (n) => (n.bin < 0 ? Infinity : n.bin);
const orders = {
  name: () => 0,
  emptiest: (a, b) => share(a) - share(b),
  dollars: (a, b) => (b.dollars ?? -1) - (a.dollars ?? -1),
  bin: (a, b) => (soon(a) === soon(b) ? 0 : soon(a) - soon(b)),
  newest: (a, b) => b.created - a.created,
};
const byName = new Intl.Collator("en", { numeric: true }).compare;

// set takes the nodes as they are, and before, what they were.
export const set = (nodes, before) => {
  if (before.size > 0 && !still.matches) note(nodes, before);
  all = [...nodes.values()].sort((a, b) => byName(a.name, b.name));
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
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (n) => words.every((w) => `${n.name} ${n.type ?? ""} ${n.fleet ?? ""} ${n.class}`.toLowerCase().includes(w) || n.pods.some((p) => p.name.includes(w)));
  shown = words.length ? all.filter(matches) : all.slice();
  const order = orders[$("order").value];
  if ($("order").value !== "name") shown.sort(order); // stable: ties by name
  resource = $("resource").value;
  say($("matches"), words.length ? `${plural(shown.length, "node")} of ${all.length}` : "");
  render();
};

// render makes the elements of the nodes that can be seen, and those alone.
export const render = () => {
  const inside = box.clientWidth - 8; // less its padding
  columns = Math.max(1, Math.floor(inside / WIDTH));
  wide = Math.max(1, Math.floor(inside / columns) - PADDING);
  const rows = Math.ceil(shown.length / columns);
  space.style.height = `${rows * HEIGHT}px`;
  box.style.setProperty("--content", `${rows * HEIGHT + 10}px`);
  const first = Math.max(0, Math.floor(box.scrollTop / HEIGHT) - MARGIN) * columns;
  const last = (Math.ceil((box.scrollTop + box.clientHeight) / HEIGHT) + MARGIN) * columns;
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
  const cell = el("button", "node", el("span", "name"), el("span", "price"), el("span", "more"), el("canvas"));
  cell.type = "button";
  cell.lastChild.setAttribute("aria-hidden", "true");
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
  cell.style.top = `${Math.floor(i / columns) * HEIGHT}px`;
  cell.style.left = `${((i % columns) * 100) / columns}%`;
  cell.style.width = `${100 / columns}%`;
};

const stateOf = (n) => [!n.ready && "not ready", n.emptying && `being emptied by ${n.emptying}`, n.cordoned && !n.emptying && "cordoned"].filter(Boolean).join(", ");

const fill = (cell, n) => {
  const look = `${resource} ${wide}`;
  cell.tabIndex = n.name === current ? 0 : -1;
  if (cell.node === n && cell.look === look) return;
  cell.node = n;
  cell.look = look;
  const pods = n.pods.length + (n.morePods ?? 0);
  const state = stateOf(n);
  const [name, price, more] = cell.children;
  say(name, n.name);
  name.title = n.name;
  say(price, n.dollars === undefined ? "no price" : `${dollars(n.dollars)}/h`);
  say(more, [n.type, state, `${plural(pods, "pod")}, ${percent(share(n))}`].filter(Boolean).join(" · "));
  more.title = more.textContent;
  cell.classList.toggle("away", state !== "");
  cell.setAttribute("aria-label", `${n.name}, ${[n.type, state, plural(pods, "pod")].filter(Boolean).join(", ")}, ${percent(share(n))} of ${resource === "cpu" ? "CPU" : "memory"} requested, ${price.textContent}`);
  paint(cell);
};

const paint = (cell) => draw(cell.lastChild, wide, BAR, cell.node, resource, arrived.get(cell.node.name));

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
  const top = Math.floor(to / columns) * HEIGHT;
  if (top < box.scrollTop) box.scrollTop = top;
  if (top + HEIGHT > box.scrollTop + box.clientHeight) box.scrollTop = top + HEIGHT - box.clientHeight;
  render();
  cells.get(current)?.focus({ preventScroll: true });
};

box.addEventListener("keydown", (e) => {
  const page = Math.max(1, Math.floor(box.clientHeight / HEIGHT)) * columns;
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[e.key];
  if (by === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  move(by);
});
box.addEventListener("scroll", () => requestAnimationFrame(render), { passive: true });
new ResizeObserver(repaint).observe(box);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => requestAnimationFrame(repaint));
for (const id of ["filter", "order", "resource"]) $(id).addEventListener("input", arrange);
$("controls").addEventListener("submit", (e) => e.preventDefault());
