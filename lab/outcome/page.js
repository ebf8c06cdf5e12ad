"use strict";
(() => {
  const buttons = [...document.querySelectorAll(".legend button")];
  const shapes = [...document.querySelectorAll("[data-p]")];
  const of = (policy) => shapes.filter((shape) => shape.dataset.p === policy);
  const shown = (button) => button.getAttribute("aria-pressed") === "true";
  const hint = document.querySelector(".hint");
  if (hint) hint.hidden = false;

  const fadeAllBut = (policy) => shapes.forEach((shape) =>
    shape.classList.toggle("faded", policy !== null && shape.dataset.p !== policy));
  for (const button of buttons) {
    const policy = button.dataset.policy;
    const point = () => fadeAllBut(shown(button) ? policy : null);
    const leave = () => fadeAllBut(null);
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(!shown(button)));
      of(policy).forEach((shape) => shape.classList.toggle("off", !shown(button)));
      leave();
    });
    button.addEventListener("mouseenter", point);
    button.addEventListener("mouseleave", leave);
  }

  const samples = document.getElementById("samples");
  if (!samples) return;
  const { span, charts, policies } = JSON.parse(samples.textContent);
  const tip = document.querySelector(".tip");
  const plots = [...document.querySelectorAll("svg.lines")];
  const cursors = plots.map((plot) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    line.setAttribute("class", "cursor");
    line.setAttribute("y1", "0");
    line.setAttribute("y2", "100%");
    line.setAttribute("visibility", "hidden");
    plot.insertBefore(line, plot.querySelector(".paths"));
    return line;
  });
  const step = Math.min(...policies.filter((p) => p.values[0].length > 1).map((p) => p.step), span);

  const duration = (seconds) => {
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    const parts = [];
    let rest = seconds < 60 ? seconds : Math.round(seconds);
    for (const [name, size] of units) {
      const whole = size === 1 ? +rest.toFixed(2) : Math.floor(rest / size);
      rest -= whole * size;
      if (whole > 0) parts.push(whole + " " + name);
    }
    return parts.length ? parts.slice(0, 3).join(" ") : "0 s";
  };

  const valueAt = (chart, policy, time) => {
    const { values, step } = policies[policy];
    const list = values[chart];
    if (!list.length) return "no samples";
    const { prefix, suffix, digits, cumulative } = charts[chart];
    const write = (v) => prefix + v.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }) + suffix;
    const i = step > 0 ? Math.round(time / step) : 0;
    if (i < list.length) return write(list[i]);
    return cumulative ? write(list[list.length - 1]) + " (ended)" : "ended";
  };

  const add = (parent, name, text) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  };

  const fill = (chart, time) => {
    tip.replaceChildren();
    add(tip, "b", "after " + duration(time));
    for (const button of buttons.filter(shown)) {
      const row = add(tip, "div");
      const name = add(row, "span");
      name.className = button.className;
      name.append(...[...button.childNodes].map((node) => node.cloneNode(true)));
      add(row, "i", valueAt(chart, button.dataset.policy, time));
    }
  };

  // The tip is next to the pointer, on the side with room, inside the window.
  const place = (x, y) => {
    const width = tip.offsetWidth, height = tip.offsetHeight, gap = 16;
    const wide = document.documentElement.clientWidth, high = document.documentElement.clientHeight;
    const left = x + gap + width <= wide - 8 ? x + gap : x - gap - width;
    tip.style.left = Math.max(8, Math.min(left, wide - 8 - width)) + "px";
    tip.style.top = Math.max(8, Math.min(y - height / 2, high - 8 - height)) + "px";
  };

  const hide = () => {
    tip.hidden = true;
    cursors.forEach((line) => line.setAttribute("visibility", "hidden"));
  };
  plots.forEach((plot, chart) => {
    const move = (event) => {
      const box = plot.getBoundingClientRect();
      const share = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
      const time = step > 0 ? Math.min(span, Math.round(share * span / step) * step) : 0;
      cursors.forEach((line) => {
        const at = span > 0 ? 100 * time / span + "%" : "0";
        line.setAttribute("x1", at);
        line.setAttribute("x2", at);
        line.setAttribute("visibility", "visible");
      });
      fill(chart, time);
      tip.hidden = false;
      place(event.clientX, event.clientY);
    };
    const area = plot.parentElement;
    area.addEventListener("pointermove", move);
    area.addEventListener("pointerdown", move);
    area.addEventListener("pointerleave", hide);
  });
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
})();
