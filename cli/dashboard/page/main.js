// Listens to the server and shows what it says. Items of an update are shown together, when all of them
// are there.

import { $, el, say } from "./dom.js";
import { colour, legend } from "./bars.js";
import * as nodes from "./nodes.js";
import * as summary from "./summary.js";
import * as lists from "./lists.js";
import * as detail from "./detail.js";
import { clock } from "./text.js";

const sections = ["summary", "nodes", "pending", "fleets", "decisions", "migrations", "policies", "pools"];
let page = new Map(); // by section: by key, an item
let staged = []; // of an update that is not complete
let reset = true;
let skew = 0; // what to add to this computer's time to have the server's, in milliseconds
let changed = new Set();
let drawn = new Map(); // the nodes that are shown
let scheduled = false;

const of = (section) => page.get(section) ?? new Map();
const now = () => Date.now() + skew;

const apply = () => {
  if (reset) {
    page = new Map(sections.map((s) => [s, new Map()]));
    changed = new Set(sections);
  }
  const copied = new Set();
  for (const [section, key, item] of staged) {
    if (!copied.has(section)) { // what is shown is compared with what comes
      copied.add(section);
      page.set(section, new Map(of(section)));
    }
    if (item === null) of(section).delete(key);
    else of(section).set(key, item);
    changed.add(section);
  }
  staged = [];
  reset = false;
  schedule();
};

// schedule shows what has changed with the next frame, and nothing while nobody looks.
const schedule = () => {
  if (scheduled || document.hidden) return;
  scheduled = true;
  requestAnimationFrame(render);
};

const render = () => {
  scheduled = false;
  const what = changed;
  changed = new Set();
  const s = of("summary").get("");
  if (what.has("summary") && s) {
    summary.show(s);
    showLegend(s.cycleSeconds);
  }
  if (what.has("nodes")) {
    nodes.set(of("nodes"), drawn);
    drawn = of("nodes");
    detail.refresh(drawn, now());
  }
  if (what.has("pending")) lists.pending([...of("pending").values()], now());
  for (const section of ["fleets", "decisions", "migrations", "policies", "pools"]) {
    if (what.has(section)) lists[section]([...of(section).values()]);
  }
};

const showLegend = (cycleSeconds) => {
  if ($("legend").shown === cycleSeconds) return;
  $("legend").shown = cycleSeconds;
  paintLegend();
};

const paintLegend = () => $("legend").replaceChildren(...legend($("legend").shown).map(({ name, pod }) => {
  const swatch = el("i", "swatch");
  swatch.style.background = colour(pod);
  return el("li", "", swatch, name);
}));

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => requestAnimationFrame(() => $("legend").shown && paintLegend()));
document.addEventListener("visibilitychange", schedule);
nodes.onOpen((name) => detail.open(drawn.get(name), now()));

const state = (text, live) => {
  say($("state"), text);
  $("state").classList.toggle("live", live);
};

// patience is how long to wait before asking a server again that has refused to tell more, in milliseconds.
const patience = 10_000;

const listen = () => {
  const source = new EventSource("events");
  source.addEventListener("reset", () => {
    staged = [];
    reset = true;
  });
  source.addEventListener("items", (e) => staged.push(...JSON.parse(e.data)));
  source.addEventListener("commit", (e) => {
    skew = JSON.parse(e.data).at - Date.now();
    apply();
    state("live", true);
  });
  source.addEventListener("error", () => {
    // What was being told is told again: the server knows the last update that was complete.
    staged = [];
    if (source.readyState === EventSource.CLOSED) refused();
    else state(`connection lost at ${clock(Date.now())}, retrying`, false);
  });
};

// refused finds out why the server has refused to tell more.
const refused = async () => {
  const answer = await fetch("./", { redirect: "manual", cache: "no-store" }).catch(() => null);
  if (answer?.type === "opaqueredirect" || answer?.status === 403) {
    location.reload(); // the session is over: the server shows the form to log in
  } else if (answer?.status === 401) {
    state("the server has stopped: start it again and reload the page", false);
  } else {
    state(`connection lost at ${clock(Date.now())}, retrying`, false);
    setTimeout(listen, patience);
  }
};

listen();
