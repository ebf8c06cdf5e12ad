// Search in the browser: a page matches if it has each word of the query. Pages with the words in their titles come
// first, then the pages that have them most often.
(() => {
  const form = document.getElementById("search");
  const query = document.getElementById("query");
  const results = document.getElementById("results");
  const most = 12;
  let pages;

  const load = async () => {
    pages ??= fetch(form.dataset.index).then((answer) => answer.json())
      .then((all) => all.map((page) => ({ ...page, lower: page.text.toLowerCase(), name: page.title.toLowerCase() })));
    return pages;
  };
  const score = (page, words) => words.reduce((sum, word) => {
    const times = page.lower.split(word).length - 1 + (page.name.includes(word) ? 100 : 0);
    return times && sum >= 0 ? sum + times : -1;
  }, 0);
  const excerpt = (page, word) => {
    const at = Math.max(0, page.lower.indexOf(word) - 40);
    return (at ? "… " : "") + page.text.slice(at, at + 140) + " …";
  };
  const show = async () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = await load();
    const found = words.length ? all.map((page) => [score(page, words), page]).filter(([s]) => s > 0) : [];
    found.sort((a, b) => b[0] - a[0]);
    results.replaceChildren(...found.slice(0, most).map(([, page]) => {
      const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("span");
      link.href = page.url;
      link.textContent = page.title;
      text.textContent = excerpt(page, words[0]);
      item.append(link, text);
      return item;
    }));
    if (words.length && !found.length) {
      const none = document.createElement("li");
      none.textContent = "No page has all of these words.";
      results.append(none);
    }
    results.hidden = !words.length;
  };

  form.hidden = false; // the form needs this script
  query.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    results.querySelector("a")?.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, textarea")) {
      event.preventDefault();
      query.focus();
    } else if (event.key === "Escape") {
      results.hidden = true;
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.closest("#search") && !results.hidden) {
      event.preventDefault();
      const stops = [query, ...results.querySelectorAll("a")];
      const next = stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      stops[(next + stops.length) % stops.length].focus();
    }
  });

  // On a wide screen the contents are always shown.
  const wide = matchMedia("(min-width: 60rem)");
  const menu = document.getElementById("menu");
  const fit = () => { menu.open = wide.matches; };
  wide.addEventListener("change", fit);
  fit();
  for (const link of menu.querySelectorAll("a")) {
    if (new URL(link.href).pathname === location.pathname && !new URL(link.href).hash) link.setAttribute("aria-current", "page");
  }
})();
