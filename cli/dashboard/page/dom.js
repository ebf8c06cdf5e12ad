// Helpers for elements. Text goes in as text: nothing here parses HTML.

export const $ = (id) => document.getElementById(id);

// el makes an element with a class, and children that are elements or texts.
export const el = (tag, name = "", ...children) => {
  const e = document.createElement(tag);
  if (name) e.className = name;
  e.append(...children.filter((child) => child !== null && child !== undefined));
  return e;
};

// say sets the text of an element where it differs, so that screen readers are not told again.
export const say = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

// list keeps the children of a parent as items say, one for each, in their order. make gives an element
// for an item; one is made again when the item has changed, and what was open in it stays open.
export const list = (parent, items, make) => {
  const before = parent.shown ?? new Map();
  const now = new Map();
  let place = null;
  for (const item of items) {
    const key = item.key ?? item.name ?? item.reason;
    let entry = before.get(key);
    if (!entry || entry.item !== item) {
      const element = make(item);
      if (entry) {
        const was = [...entry.element.querySelectorAll("details")].map((d) => d.open);
        const focused = entry.element.contains(document.activeElement);
        [...element.querySelectorAll("details")].forEach((d, i) => (d.open = was[i] ?? d.open));
        entry.element.replaceWith(element);
        if (focused) element.querySelector("summary, button")?.focus();
      }
      entry = { item, element };
    }
    now.set(key, entry);
    const next = place ? place.nextSibling : parent.firstChild;
    if (entry.element !== next) parent.insertBefore(entry.element, next);
    place = entry.element;
  }
  for (const [key, entry] of before) if (!now.has(key)) entry.element.remove();
  parent.shown = now;
};

// facts fills a <dl> with names and values.
export const facts = (dl, pairs) => {
  const text = JSON.stringify(pairs);
  if (dl.shown === text) return;
  dl.shown = text;
  dl.replaceChildren(...pairs.filter((pair) => pair[1] !== "").map(([name, value]) => el("div", "", el("dt", "", name), el("dd", "", value))));
};
