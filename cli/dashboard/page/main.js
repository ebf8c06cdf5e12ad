// Listens to the server and shows what it says. Items of an update are shown together, when all of them
// are there.

import { $, el, say } from "./dom.js";
import { colour, legend } from "./bars.js";
import * as nodes from "./nodes.js";
import * as summary from "./summary.js";
import * as lists from "./lists.js";
import * as detail from "./detail.js";
import { QUIET, stateOf } from "./state.js";

const sections = ["connection", "summary", "nodes", "pending", "fleets", "decisions", "migrations", "policies", "pools"];
let page = new Map(); // by section: by key, an item
let staged = []; // of an update that is not complete
let reset = true;
let skew = 0; // what to add to this computer's time to have the server's, in milliseconds
let changed = new Set();
let drawn = new Map(); // the nodes that are shown
let scheduled = false;

let heard = 0; // when the server said anything, by the clock of this computer
let cut = false; // the connection to the server is broken
let stopped = false; // and the server is not that of this page
let state = stateOf({ heard, now: 0 });

const of = (section) => page.get(section) ?? new Map();

// look finds the state of the figures. Those that are not current are as old as their time, and grow no older.
const look = () => {
  const before = state;
  state = stateOf({ said: of("connection").get(""), heard, now: Date.now(), cut, stopped, known: of("summary").has(""), skew });
  if (before.state === state.state && before.label === state.label && before.line === state.line) return;
  say($("state"), state.label);
  $("state").dataset.state = state.state;
  $("trouble").hidden = !state.line;
  say($("trouble"), state.line);
  document.body.classList.toggle("old", state.state !== "live");
  changed.add("summary").add("pending").add("decisions"); // what they say of an absence depends on the state
  schedule();
};

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
  look();
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
  const said = of("connection").get("");
  if (what.has("connection")) summary.notes(said?.notes ?? []);
  if (what.has("summary")) {
    summary.show(s, state);
    if (s) showLegend(s.cycleSeconds);
  }
  if (what.has("nodes")) {
    nodes.set(of("nodes"), drawn);
    drawn = of("nodes");
    detail.refresh(drawn, state.at, s !== undefined);
  }
  if (what.has("pending") || what.has("summary")) lists.pending([...of("pending").values()], state, s?.says);
  if (what.has("decisions") || what.has("connection")) lists.decisions([...of("decisions").values()], state, s !== undefined, said);
  for (const section of ["fleets", "migrations", "policies", "pools"]) {
    if (what.has(section)) lists[section]([...of(section).values()]);
  }
};

// tick lets times go on, and finds that the server is silent.
const tick = () => {
  look();
  if (document.hidden || state.state !== "live") return;
  lists.age(state.at);
  detail.refresh(drawn, state.at, true);
};
setInterval(tick, 1000);

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
document.addEventListener("visibilitychange", () => {
  look();
  schedule();
});
nodes.onOpen((name) => detail.open(drawn.get(name), state.at));

// patience is how long to wait before asking a server again that has refused to tell more, in milliseconds.
const patience = 3_000;

let source;
const listen = () => {
  source?.close();
  source = new EventSource("events");
  const hears = (at) => {
    skew = at - Date.now();
    heard = Date.now();
    cut = stopped = false;
  };
  source.addEventListener("reset", () => {
    staged = [];
    reset = true;
  });
  source.addEventListener("items", (e) => {
    heard = Date.now(); // a large update takes a while
    staged.push(...JSON.parse(e.data));
  });
  source.addEventListener("commit", (e) => {
    hears(JSON.parse(e.data).at);
    apply();
  });
  source.addEventListener("beat", (e) => {
    hears(JSON.parse(e.data).at);
    look();
  });
  source.addEventListener("error", () => {
    // What was being told is told again: the server knows the last update that was complete.
    staged = [];
    cut = true;
    if (source.readyState === EventSource.CLOSED) refused();
    look();
  });
};

// refused finds out why the server has refused to tell more.
const refused = async () => {
  const answer = await fetch("./", { redirect: "manual", cache: "no-store", signal: AbortSignal.timeout(QUIET) }).catch(() => null);
  if (answer?.type === "opaqueredirect" || answer?.status === 403) {
    location.reload(); // the session is over: the server shows the form to log in
    return;
  }
  stopped = answer?.status === 401;
  look();
  setTimeout(listen, patience);
};

// A connection whose other end has vanished never fails: a silent one is opened again.
setInterval(() => {
  if (heard && Date.now() - heard > 2 * QUIET && source.readyState === EventSource.OPEN) {
    cut = true;
    listen();
  }
}, QUIET);

listen();
