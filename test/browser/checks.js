// What a page is checked for inside the browser. Each function returns a list of
// faults in words; an empty list is what one wants.
window.checks = (() => {
  // checkVisibility alone takes a <g> that is not displayed for visible.
  const displayed = (element) => !element || getComputedStyle(element).display !== "none" && displayed(element.parentElement);
  const visible = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && displayed(element);
  const name = (element) => {
    const text = element.textContent.trim().replace(/\s+/g, " ").slice(0, 40);
    return `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") || ""}">${text}`;
  };

  // Every colour that a style computes to, as [red, green, blue, opacity].
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (css) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, bottom) => top.slice(0, 3).map((c, i) => c * top[3] + bottom[i] * (1 - top[3])).concat(1);
  const background = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((bottom, top) => over(top, bottom), [255, 255, 255, 1]);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (front, back) => {
    const [light, dark] = [luminance(over(front, back)), luminance(back)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const opacity = (element) => {
    let product = 1;
    for (let e = element; e; e = e.parentElement) product *= getComputedStyle(e).opacity;
    return product;
  };
  const faded = (colour, element) => colour.slice(0, 3).concat(colour[3] * opacity(element));

  const texts = () => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = new Set();
    while (walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      if (walker.currentNode.data.trim() && !parent.closest("script, style, title, caption") && visible(parent)) found.add(parent);
    }
    return [...found];
  };

  return {
    text() {
      const all = texts();
      if (all.length < 20) return [`only ${all.length} texts found`];
      return all.flatMap((element) => {
        const style = getComputedStyle(element);
        const colour = faded(rgba(element instanceof SVGElement ? style.fill : style.color), element);
        const ratio = contrast(colour, background(element));
        const faults = [];
        if (!(ratio >= 4.5)) faults.push(`${name(element)}: contrast is ${ratio.toFixed(2)}, want 4.5`);
        if (!(parseFloat(style.fontSize) >= 12)) faults.push(`${name(element)}: type is ${style.fontSize}, want 12px`);
        return faults;
      });
    },

    strokes() {
      const all = [...document.querySelectorAll(".paths path, .swatch line, .bound, .bars rect, .range line")].filter(visible);
      if (all.length < 6) return [`only ${all.length} strokes found`];
      return all.flatMap((element) => {
        const ratio = contrast(faded(rgba(getComputedStyle(element).stroke), element), background(element));
        return ratio >= 3 ? [] : [`${name(element)}: contrast is ${ratio.toFixed(2)}, want 3`];
      });
    },

    charts(want) {
      const charts = [...document.querySelectorAll("figure svg[role=img]")];
      const faults = charts.length === want ? [] : [`${charts.length} charts, want ${want}`];
      for (const chart of charts) {
        const box = chart.getBoundingClientRect();
        if (!visible(chart) || box.width < 200 || box.height < 40) faults.push(`${name(chart)}: is ${box.width} by ${box.height}`);
        for (const shape of chart.querySelectorAll("path, circle, rect")) {
          if (!visible(shape)) continue;
          const inner = shape.getBoundingClientRect();
          if (inner.width + inner.height < 3) faults.push(`${name(chart)}: ${name(shape)} is ${inner.width} by ${inner.height}`);
          if (inner.left < box.left - 4 || inner.right > box.right + 4 || inner.top < box.top - 4 || inner.bottom > box.bottom + 4) {
            faults.push(`${name(chart)}: ${name(shape)} leaves the chart`);
          }
        }
      }
      return faults;
    },

    overflow() {
      const wide = document.documentElement.clientWidth;
      const faults = [];
      if (document.documentElement.scrollWidth > wide) faults.push(`page is ${document.documentElement.scrollWidth} wide, the window ${wide}`);
      for (const element of document.querySelectorAll("body *")) {
        if (element.closest(".scroll > *, .legend > *") || !visible(element)) continue;
        const box = element.getBoundingClientRect();
        if (box.width > 0 && (box.right > wide + 0.5 || box.left < -0.5)) faults.push(`${name(element)}: from ${box.left} to ${box.right} of ${wide}`);
      }
      return faults;
    },

    overlaps() {
      const faults = [];
      let pairs = 0;
      for (const figure of document.querySelectorAll("figure")) {
        const boxes = [...figure.querySelectorAll("figcaption h3, figcaption p, text, .name")].filter(visible).map((element) => {
          const { left, right, top, bottom } = element.getBoundingClientRect();
          return { element, left, right, top: top + 2, bottom: bottom - 2 };
        });
        boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
          pairs++;
          if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) faults.push(`${name(a.element)} and ${name(b.element)} overlap`);
        }));
      }
      return pairs < 20 ? [`only ${pairs} pairs of texts found`] : faults;
    },

    // collisions finds texts, controls and bars that overlap each other, leave the frame that they stand in, or are cut off
    // without a title that has the whole text. What is scrolled out of sight counts as far as it can be seen.
    collisions() {
      const frames = ".tile, .card, .row, .node, #state, dialog, main, body";
      const faults = [];
      const boxes = [];
      // seen is the part of a rectangle that its scrolling ancestors show.
      const seen = (element, rect) => {
        let { left, right, top, bottom } = rect;
        for (let e = element; e && e !== document.body; e = e.parentElement) {
          const style = getComputedStyle(e);
          if (style.overflowX === "visible" && style.overflowY === "visible") continue;
          const box = e.getBoundingClientRect();
          [left, right, top, bottom] = [Math.max(left, box.left), Math.min(right, box.right), Math.max(top, box.top), Math.min(bottom, box.bottom)];
        }
        return { left, right, top, bottom };
      };
      const add = (element, rect, text, slack) => {
        const { left, right, top, bottom } = seen(element, rect);
        // Lines of text are as high as the tallest letters of the font: less of them is seen.
        if (right - left > 2 && bottom - top > 2 * slack) boxes.push({ element, text, left: left + 0.5, right: right - 0.5, top: top + slack, bottom: bottom - slack });
      };
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      let texts = 0;
      while (walker.nextNode()) {
        const node = walker.currentNode;
        const element = node.parentElement;
        if (!node.data.trim() || element.closest("script, style, option, noscript, .skip, .unseen") || !visible(element)) continue;
        texts++;
        const range = document.createRange();
        range.selectNodeContents(node);
        const frame = element.closest(frames)?.getBoundingClientRect();
        for (const rect of range.getClientRects()) {
          add(element, rect, node.data.trim(), 2);
          const scrolls = element.closest(".scroll, #nodes");
          if (frame && !scrolls && (rect.right > frame.right + 0.5 || rect.left < frame.left - 0.5)) faults.push(`${name(element)} leaves ${name(element.closest(frames))}`);
        }
        for (let e = element; e && e !== document.body; e = e.parentElement) {
          const style = getComputedStyle(e);
          if (!["hidden", "clip"].includes(style.overflowX) || e.matches("#nodes, .scroll")) continue;
          if ((e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1) && !e.title.includes(node.data.trim())) faults.push(`${name(e)} is cut off`);
        }
      }
      for (const element of document.querySelectorAll("input, select, button:not(.node), .track, canvas, .swatch, hr")) {
        if (visible(element)) add(element, element.getBoundingClientRect(), element, 0.5);
      }
      for (const element of document.querySelectorAll("select")) {
        if (visible(element) && element.scrollWidth > element.clientWidth + 1) faults.push(`${name(element)} is cut off`);
      }
      boxes.sort((a, b) => a.top - b.top);
      boxes.forEach((a, i) => {
        for (let j = i + 1; j < boxes.length && boxes[j].top < a.bottom; j++) {
          const b = boxes[j];
          if (a.element === b.element || a.left >= b.right || b.left >= a.right) continue;
          if (a.element.contains(b.element) && a.element.matches("button") || b.element.contains(a.element) && b.element.matches("button")) continue;
          faults.push(`${name(a.element)} and ${name(b.element)} overlap`);
        }
      });
      return texts < 20 ? [`only ${texts} texts found`] : [...new Set(faults)];
    },

    // shown lists for each chart the policies that can be seen in it.
    shown() {
      return [...document.querySelectorAll("figure svg[role=img]")].map((chart) =>
        [...new Set([...chart.querySelectorAll("[data-p]")].filter(visible).map((shape) => Number(shape.dataset.p)))].sort((a, b) => a - b));
    },

    // tip is what the box beside the pointer says, null if there is none.
    tip() {
      const tip = document.querySelector(".tip");
      if (!tip || !visible(tip)) return null;
      const box = tip.getBoundingClientRect();
      return {
        inside: box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight && box.width > 50,
        time: tip.querySelector("b").textContent,
        rows: [...tip.querySelectorAll("div")].map((row) => [row.querySelector("span").textContent, row.querySelector("i").textContent]),
      };
    },

    // box is where a line chart is, in the middle of the window: once it has been
    // scrolled there and those who listen for that have been told.
    async box(chart) {
      const svg = document.querySelectorAll("svg.lines")[chart];
      svg.scrollIntoView({ block: "center" });
      for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
      const { left, top, width, height } = svg.getBoundingClientRect();
      return { left, top, width, height };
    },
  };
})();
