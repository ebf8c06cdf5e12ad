// The element of a node: a cell of three lines and a bar, or a row of a table, as the style sheet says.

import { el, say } from "./dom.js";
import { count, dollars, dollarsOfMonth, percent, plural } from "./text.js";

// heightOf returns the height of a cell or a row, in pixels. placed says that a cell has a line for where its node is.
export const heightOf = (table, placed) => (table ? 30 : placed ? 78 : 62);

// lines are what stands in each line of a cell.
const lines = [["name", "price", "monthly"], ["type", "pods", "used", "condition"], ["zone", "sold", "pool"]];

// titles are those of the columns of a table.
const titles = { name: "Node", type: "Type", zone: "Zone", sold: "Capacity", pool: "Pool", condition: "State", pods: "Pods", used: "Requested", price: "$/hour", monthly: "$/month" };

export const header = () => Object.entries(titles).map(([name, title]) => el("span", name, title));

export const make = () => {
  const cell = el("button", "node", ...lines.map((names) => el("span", "line-of-node", ...names.map((name) => el("span", name)))), el("canvas", "bar"));
  cell.type = "button";
  cell.lastChild.setAttribute("aria-hidden", "true");
  return cell;
};

const conditionOf = (n) => [!n.ready && "not ready", n.emptying && `being emptied by ${n.emptying}`, n.cordoned && !n.emptying && "cordoned"].filter(Boolean).join(", ");

// fill says what a node is. share is the share of its resource that pods request.
export const fill = (cell, n, share, resource, table) => {
  const pods = n.pods.length + (n.morePods ?? 0);
  const condition = conditionOf(n);
  const known = n.dollars !== undefined;
  const price = known ? `${dollars(n.dollars)}/h` : n.unpriced ? "no price" : "";
  const texts = {
    name: n.name, type: n.type ?? "", zone: n.zone ?? "", sold: n.capacityType ?? "", pool: n.pool ?? "", condition, used: percent(share),
    pods: table ? count(pods) : plural(pods, "pod"), price: table && known ? dollars(n.dollars) : price, monthly: known ? dollarsOfMonth(n.dollarsPerMonth) : "",
  };
  for (const span of cell.querySelectorAll("span > span")) {
    say(span, texts[span.className]);
    span.title = texts[span.className];
  }
  const said = [n.name, n.type, condition, plural(pods, "pod")].filter(Boolean).join(", ");
  const where = [n.zone && `zone ${n.zone}`, n.capacityType, n.pool && `pool ${n.pool}`].filter(Boolean).map((text) => ", " + text).join("");
  cell.setAttribute("aria-label", `${said}, ${percent(share)} of ${resource === "cpu" ? "CPU" : "memory"} requested${price && ", " + price}${where}`);
};
