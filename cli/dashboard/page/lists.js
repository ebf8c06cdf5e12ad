// Everything that is listed: what waits, what was decided, and the objects of Supercargo.

import { $, el, facts, list, say } from "./dom.js";
import { clock, count, plural, span } from "./text.js";

// dl shows the facts of an object, of which there may be none yet.
const dl = (all) => {
  const d = el("dl", "facts");
  facts(d, (all ?? []).map(({ name, value }) => [name, value]));
  return d;
};

const unreported = (o) => (o.unreported ? el("p", "", o.unreported) : null);

const texts = (items, name = "terms") => (items?.length ? el("ul", name, ...items.map((text) => el("li", "", text))) : null);

const time = (milliseconds) => {
  const t = el("time", "", clock(milliseconds));
  t.dateTime = new Date(milliseconds).toISOString();
  return t;
};

const section = (id, items, make) => {
  $(`${id}-section`).hidden = items.length === 0;
  list($(id), items, make);
};

// absence says that there is nothing of a kind, only of what is known: now, or then, which is at the time of the state.
const absence = (id, items, known, state, now, then) => {
  $(id).hidden = items.length > 0;
  say($(id), !known ? "Not known." : state.state === "live" ? now : then.replaceAll("{since}", clock(state.at)));
};

const titled = (element, title) => Object.assign(element, { title });

const waits = (since, now, pods) => `waiting for ${pods === 1 ? "" : "up to "}${span(now / 1000 - since)}`;

// age lets the waiting times go on.
export const age = (now) => {
  for (const e of document.querySelectorAll("#pending [data-since]")) say(e, waits(Number(e.dataset.since), now, Number(e.dataset.pods)));
};

export const pending = (items, state, says) => {
  absence("no-pending", items, says, state, says?.noPending, says?.noPendingThen);
  list($("pending"), items.sort((a, b) => b.pods - a.pods), (p) => {
    const waiting = el("span", "quiet", waits(p.since, state.at, p.pods));
    Object.assign(waiting.dataset, { since: p.since, pods: p.pods });
    return el("article", "row warn",
      el("p", "line", el("b", "", plural(p.pods, "pod")), waiting),
      titled(el("p", "", p.short ?? p.reason), p.reason),
      el("p", "quiet", p.requests),
      el("details", "", el("summary", "", "Details"),
        p.short && el("p", "whole", `The scheduler says: ${p.reason}`),
        texts([...p.names, ...(p.pods > p.names.length ? [`and ${count(p.pods - p.names.length)} more`] : [])])));
  });
  age(state.at);
};

export const decisions = (items, state, known, said) => {
  absence("no-decisions", items, known && said, state, said?.noDecisions, said?.noDecisionsThen);
  list($("decisions"), items.sort((a, b) => b.at - a.at), decision);
};

const decision = (d) => {
  const head = el("p", "line", el("span", "object", d.object), d.mode && el("span", "tag", d.mode), time(d.at));
  const row = el("article", d.warning ? "row warn" : "row", head, el("p", "", d.summary));
  if (d.outcomes?.length) row.append(outcomes(d));
  if (d.terms?.length) row.append(el("details", "", el("summary", "", plural(d.terms.length, "term")), texts(d.terms)));
  return row;
};

const outcomes = (d) => {
  const th = (text) => {
    const e = el("th", "", text);
    e.scope = "col";
    return e;
  };
  const rows = d.outcomes.map((o) => {
    const name = el("th", "", o.name);
    name.scope = "row";
    return el("tr", "", name, el("td", "", o.expected), el("td", o.measured ? "" : "quiet", o.measured || (d.open ? "not yet" : "–")));
  });
  return el("table", "outcomes", el("thead", "", el("tr", "", el("td"), th("expected"), th("measured"))), el("tbody", "", ...rows));
};

const conditions = (all) => {
  const bad = all.filter((c) => !c.ok);
  return bad.length ? el("ul", "conditions", ...bad.map((c) => el("li", "", el("b", "", `${c.type} is ${c.status}: `), c.message || c.reason))) : null;
};

const card = (name, tags, ...rest) => el("article", "card", el("h3", "", name, ...tags.filter(Boolean).map((t) => el("span", "tag", t))), ...rest);

export const fleets = (items) => section("fleets", items, (f) => card(f.name, [f.mode, `class ${f.class}`],
  dl(f.facts), unreported(f),
  f.doing && el("p", "now", f.doing), f.waiting && el("p", "", f.waiting), conditions(f.conditions)));

export const migrations = (items) => section("migrations", items.sort((a, b) => (a.ended ?? false) - (b.ended ?? false) || b.created - a.created), (m) => el("article", m.failed ? "row warn" : "row",
  el("p", "line", el("span", "object", m.pod), el("span", "tag", m.phase), el("span", "quiet", `${m.from || "?"} → ${m.to || "?"}`)),
  el("ol", "steps", ...m.steps.map((s) => {
    const li = el("li", "", s.name, el("span", "unseen", `: ${s.state}`));
    li.dataset.state = s.state;
    return li;
  })),
  m.message && el("p", "", m.message),
  m.measured && el("p", "quiet", m.measured)));

export const policies = (items) => section("policies", items, (p) => card(p.name, [p.law, p.mode],
  el("p", "quiet", p.target),
  dl(p.facts), unreported(p),
  p.slow ? el("p", "conditions", p.slow) : null,
  texts(p.reasons, "reasons"), conditions(p.conditions)));

export const pools = (items) => section("pools", items, (p) => card(p.name, [p.phase, p.mode],
  dl(p.facts), unreported(p),
  p.silentSince ? el("p", "conditions", `The manager has not answered since ${clock(1000 * p.silentSince)}.`) : null,
  conditions(p.conditions)));

