// The page works without this script. It adds: downloads as SVG, PNG and plain CSV, arms that can be hidden, signs of
// what scrolls, and fewer stops for the keyboard. filter.js adds the filter.
const save = (blob, name) => {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
};
const button = (text, act) => Object.assign(document.createElement("button"), { type: "button", textContent: text, onclick: act });

// A figure as a file of its own, on the white ground that it is drawn for.
const standalone = (svg) => {
  const copy = svg.cloneNode(true), [, , width, height] = svg.getAttribute("viewBox").split(" ");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("style", "background: #ffffff; stroke-linejoin: round; stroke-linecap: butt");
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
};
const png = async (svg, name) => {
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number), scale = 3, image = new Image();
  image.src = URL.createObjectURL(standalone(svg));
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: width * scale, height: height * scale });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  canvas.toBlob((blob) => save(blob, name));
};
for (const figure of document.querySelectorAll("figure:has(.tools)")) {
  const svg = figure.querySelector(".drawing svg"), tools = figure.querySelector(".tools");
  for (const link of tools.querySelectorAll("a.csv")) {
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      const packed = Uint8Array.from(atob(link.getAttribute("href").split(",")[1]), (letter) => letter.charCodeAt(0));
      const text = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      save(await new Response(text).blob(), link.download.replace(/\.gz$/, ""));
    });
  }
  if (!svg) continue; // a table
  tools.append(button("SVG", () => save(standalone(svg), `${figure.id}.svg`)), button("PNG", () => png(svg, `${figure.id}.png`)));
  // What the pointer or the keyboard is on; a click leads to its row in the table.
  const parts = svg.querySelectorAll(".told");
  if (parts.length) {
    const output = Object.assign(document.createElement("output"), { textContent: "Point at a dot to read what it is; Tab leads through the front." });
    svg.closest(".drawing").after(output);
    for (const part of parts) {
      const tell = () => { output.textContent = part.querySelector("title").textContent; };
      const row = document.getElementById(part.id.replace(/^.*-trial:/, "trial-").replace(/~\d+$/, ""));
      part.addEventListener("pointerenter", tell);
      part.addEventListener("focus", tell);
      if (row) part.addEventListener("click", () => { location.hash = row.id; });
    }
  }
  // Curves are named by their arm: `…-arm:additive`, `…-arm:additive~2`; thin curves by their seed too: `…/seed:0`.
  const curves = [...svg.querySelectorAll("[id*='-arm:']")].map((part) => {
    const [arm, seed] = part.id.replace(/^.*-arm:/, "").replace(/~\d+$/, "").split("/seed:");
    return { part, arm, seed };
  });
  const hidden = new Set();
  const show = () => curves.forEach(({ part, arm, seed }) => {
    const off = hidden.has(`arm ${arm}`) || (seed !== undefined && hidden.has(`seed ${seed}`));
    part.setAttribute("visibility", off ? "hidden" : "visible");
  });
  for (const kind of ["seed", "arm"]) {
    const names = [...new Set(curves.map((curve) => curve[kind]).filter((name) => name !== undefined))];
    if (names.length < 2) continue;
    const choice = Object.assign(document.createElement("fieldset"), { className: "arms" });
    choice.append(Object.assign(document.createElement("legend"), { textContent: kind === "arm" ? "Arms shown" : "Seeds shown as thin lines; mean, band and n are of all seeds" }));
    for (const name of names) {
      const label = document.createElement("label");
      const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
      box.onchange = () => { hidden[box.checked ? "delete" : "add"](`${kind} ${name}`); show(); };
      label.append(box, ` ${name}`);
      choice.append(label);
    }
    figure.prepend(choice);
  }
}

// Only what scrolls says so and is a stop of the keyboard.
const scrolls = new ResizeObserver((entries) => {
  for (const box of new Set(entries.map((entry) => entry.target.closest(".scroll")))) {
    const wider = box.scrollWidth > box.clientWidth + 1;
    box.classList.toggle("scrolls", wider);
    if (wider) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
});
for (const box of document.querySelectorAll(".scroll")) [box, box.firstElementChild].forEach((part) => scrolls.observe(part));

// The keyboard leaves a chapter at its start.
const chapters = [...document.querySelectorAll("#content > section")];
chapters.slice(0, -1).forEach((chapter, place) => {
  const next = chapters[place + 1].querySelector("h2");
  chapter.prepend(Object.assign(document.createElement("a"), { className: "skip", href: `#${next.id}`, textContent: `Skip to: ${next.textContent}` }));
});

// The side bar of a narrow screen closes behind its links.
const contents = document.querySelector("#contents");
contents.addEventListener("click", (event) => event.target.closest("a") && contents.hidePopover?.());
