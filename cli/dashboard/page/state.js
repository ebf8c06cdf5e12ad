// Whether the figures are current, and since when they are not. Two connections may fail: that of the server to the
// cluster, of which the server tells, and that of this page to the server, which the page must find itself.

import { clock } from "./text.js";

// QUIET is how long the server may say nothing, in milliseconds. It says at least every 2 s that it is there.
export const QUIET = 8_000;

// stateOf returns what to say. said is what the server said last about the cluster; heard is when it said anything, and
// now the time, both in milliseconds by the clock of this computer; cut says that the connection is known to be broken,
// and stopped that the server is another one. known says that there are figures. skew is what to add to have the server's
// time.
export const stateOf = ({ said, heard, now, cut = false, stopped = false, known = false, skew = 0 }) => {
  if (!heard) return stopped || cut ? lost(0, stopped) : { state: "connecting", label: "connecting", line: "", at: 0 };
  if (stopped || cut || now - heard > QUIET) return lost(known ? Math.min(said?.since || Infinity, heard + skew) : 0, stopped);
  if (!said) return { state: "connecting", label: "connecting", line: "", at: 0 };
  const at = said.state === "live" ? now + skew : said.since ?? 0;
  const dated = (text) => (text ?? "").replaceAll("{since}", clock(at));
  return { state: said.state, label: dated(said.label), line: dated(said.line), at };
};

const lost = (at, stopped) => {
  const figures = at ? `The figures are from ${clock(at)}.` : "Nothing is known about the cluster.";
  return {
    state: "stale", label: at ? `stale since ${clock(at)}` : "no connection", at,
    line: stopped ? `The dashboard has stopped. ${figures} Start it again, and open the address that it prints.`
      : `This page gets no answer from the dashboard. ${figures} It tries again by itself.`,
  };
};
