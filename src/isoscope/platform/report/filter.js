// The filter shows what has all its words: figures, findings, rows, terms and texts, with the headings above them.
{
  const UNITS = "figure, .card, section > .findings > li, ul.lead > li, .words > dt, tbody tr:not(:has(th[scope=rowgroup]), .card tr)";
  const UNREAD = "style, script, title, desc, details, .skip, td code"; // style sheets, digests, folds
  const filter = document.querySelector("#filter"), matches = document.querySelector("#matches");

  // Equal for a₁, a_1 and A1; and for effective_rank and "Effective rank".
  const plain = (text) => text.normalize("NFKC").toLowerCase().replace(/_(?=\d)/g, "").replace(/[\s_]+/g, " ");
  const read = (element) => {
    if (element.matches(UNREAD)) return "";
    const accept = (node) => (node instanceof Element && node.matches(UNREAD) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, accept), found = [];
    while (walker.nextNode()) if (walker.currentNode instanceof Text) found.push(walker.currentNode.data);
    return plain(found.join(" "));
  };

  // A unit is the smallest part that is shown or hidden. With it, its headings are shown, and its table's references.
  const collected = () => [...document.querySelectorAll("#content > section")].flatMap((section) => {
    let heads = [];
    return [...section.children].flatMap((block) => {
      if (block.matches("h2, h3")) {
        heads = block.matches("h2") ? [block] : [heads[0], block];
        return [];
      }
      const inner = block.matches(UNITS) ? [] : [...block.querySelectorAll(UNITS)];
      return (inner.length ? inner : [block]).map((element) => {
        const own = element.matches("dt") ? [element, element.nextElementSibling] : [element];
        const rows = [...(element.closest("tbody")?.rows ?? [])], groups = rows.filter((row) => row.querySelector("th[scope=rowgroup]"));
        const references = rows.filter((row) => row.textContent.includes("reference"));
        const text = [...own, ...groups, ...heads].map(read).join(" ");
        return { element, text, shown: [...own, ...groups, ...references, block, ...heads, section] };
      });
    });
  });
  const targeted = (hash) => {
    try {
      return document.getElementById(decodeURIComponent(hash.slice(1)));
    } catch {
      return null;  // a typed "#%" is no encoded text
    }
  };
  let units;
  const apply = () => {
    units ??= collected();
    const words = plain(filter.value).split(" ").filter(Boolean);
    const kept = units.filter((unit) => words.every((word) => unit.text.includes(word)));
    const shown = new Set(kept.flatMap((unit) => unit.shown));
    for (const unit of units) for (const part of unit.shown) part.hidden = !shown.has(part);
    for (const link of document.querySelectorAll("nav li a")) {
      link.parentElement.hidden = Boolean(targeted(link.hash)?.closest("[hidden]"));
    }
    for (const fold of document.querySelectorAll(".more")) fold.open = words.length > 0;
    const figures = kept.filter((unit) => unit.element.matches("figure")).length;
    const found = kept.length ? `${figures} figure${figures === 1 ? "" : "s"}; ${kept.length - figures} findings, rows and texts` : "Nothing found";
    matches.textContent = words.length ? found : "";
    const url = new URL(location.href);
    if (words.length) url.searchParams.set("filter", filter.value);
    else url.searchParams.delete("filter");
    history.replaceState(history.state, "", url);
  };

  // The reader stays at the nearest unit that is shown, and returns to the old place when the filter is cleared.
  const visible = (unit) => unit.element.checkVisibility(), box = (unit) => unit.element.getBoundingClientRect();
  const places = () => (units ??= collected()).filter(visible).map((unit) => {
    const { top, bottom } = box(unit);
    return { unit, top, away: Math.max(top, -bottom, 0) };
  });
  const go = (old) => {
    const [first, ...others] = old.filter(({ unit }) => visible(unit));
    if (!first) return;
    const { unit, top, away } = others.reduce((near, one) => (one.away < near.away ? one : near), first);
    scrollBy(0, box(unit).top - (away < innerHeight && (top > 0 || !away) ? top : 0));
  };
  let before, left; // places without the filter; where the last change of the filter left the reader
  filter.addEventListener("input", () => {
    before ??= places();
    const from = filter.value.trim() && scrollY !== left ? places() : before;
    apply();
    go(from);
    left = scrollY;
    if (!filter.value.trim()) before = undefined;
  });

  // A link to what is hidden clears the filter; a link to what is folded opens the fold.
  const reveal = (hash) => {
    const target = targeted(hash), hidden = target?.closest("[hidden]"), fold = target?.closest(".more");
    if (hidden) {
      filter.value = "";
      before = undefined;
      apply();
    }
    if (fold) fold.open = true;
    if (hidden || fold) target.scrollIntoView();
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link) reveal(link.hash);
  });
  addEventListener("hashchange", () => reveal(location.hash));

  filter.closest(".filter").hidden = false;
  filter.value = new URL(location.href).searchParams.get("filter") ?? "";
  if (filter.value) {
    apply();
    targeted(location.hash)?.scrollIntoView();
  }
  reveal(location.hash);
}
