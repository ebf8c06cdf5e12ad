// The bar of a node: its pods side by side, as wide as what they request.

import { ENDLESS, UNKNOWN, span } from "./text.js";

const STEPS = 6; // colours of time bins: the last is of that bin and all later ones

let colours;

// colour names of the style sheet, read again when the scheme changes.
const read = () => {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  colours = { service: get("--service"), system: get("--system"), unknown: get("--unknown"), free: get("--free"), over: get("--over"), fresh: get("--text") };
  colours.bins = Array.from({ length: STEPS }, (_, i) => get(`--bin${i}`));
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (colours = undefined));

export const colour = (pod) => {
  if (!colours) read();
  if (pod.class === "system") return colours.system;
  if (pod.bin === ENDLESS) return colours.service;
  if (pod.bin === UNKNOWN) return colours.unknown;
  return colours.bins[Math.min(pod.bin, STEPS - 1)];
};

// legend says what colours mean.
export const legend = (cycleSeconds) => {
  const ends = (i) => (i === STEPS - 1 ? `in ${span(cycleSeconds * i)} or later` : `within ${span(cycleSeconds * (i + 1))}`);
  return [
    { name: "service", pod: { class: "service", bin: ENDLESS } },
    ...Array.from({ length: STEPS }, (_, i) => ({ name: i === 0 ? `batch, to end ${ends(i)} or overdue` : ends(i), pod: { class: "batch", bin: i } })),
    { name: "batch, end unknown", pod: { class: "batch", bin: UNKNOWN } },
    { name: "of the system", pod: { class: "system", bin: ENDLESS } },
  ];
};

// draw paints the pods of a node on a canvas of a width and height in pixels of the page. fresh are the
// names of those that have just come. Nothing is asked of the layout: many bars are drawn in a frame.
export const draw = (canvas, width, height, node, resource, fresh) => {
  if (!colours) read();
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.fillStyle = colours.free;
  pen.fillRect(0, 0, width, height);
  const whole = Math.max(node[resource], 1);
  let at = 0;
  for (const pod of node.pods) {
    const wide = (pod[resource] / whole) * width;
    if (wide <= 0) continue;
    const gap = wide > 3 ? 1 : 0;
    pen.fillStyle = colour(pod);
    pen.globalAlpha = pod.state ? 0.55 : 1;
    pen.fillRect(at, 0, Math.max(wide - gap, 0.5), height);
    pen.globalAlpha = 1;
    if (fresh?.has(pod.name)) {
      pen.strokeStyle = colours.fresh;
      pen.lineWidth = 2;
      pen.strokeRect(at + 1, 1, Math.max(wide - gap - 2, 1), height - 2);
    }
    at += wide;
  }
};
