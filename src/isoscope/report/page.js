// The page works without this script. It adds: a filter, downloads as SVG, PNG and plain CSV, and arms that can be hidden.
const save = (blob, name) => {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
};
const button = (text, act) => Object.assign(document.createElement("button"), { type: "button", textContent: text, onclick: act });

// A figure as a file of its own: ink and background are those of the page.
const standalone = (svg) => {
  const copy = svg.cloneNode(true), [, , width, height] = svg.getAttribute("viewBox").split(" ");
  const { color } = getComputedStyle(svg), { backgroundColor } = getComputedStyle(document.body);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("style", `color: ${color}; background: ${backgroundColor}; stroke-linejoin: round; stroke-linecap: butt`);
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
  tools.append(button("SVG", () => save(standalone(svg), `${figure.id}.svg`)), button("PNG", () => png(svg, `${figure.id}.png`)));
  for (const link of tools.querySelectorAll("a.csv")) {
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      const packed = Uint8Array.from(atob(link.getAttribute("href").split(",")[1]), (letter) => letter.charCodeAt(0));
      const text = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      save(await new Response(text).blob(), link.download.replace(/\.gz$/, ""));
    });
  }
  // Curves are named by their arm: `…-arm:additive`, `…-arm:additive.2`.
  const arms = new Map();
  for (const part of svg.querySelectorAll("[id*='-arm:']")) {
    const arm = part.id.replace(/^.*-arm:/, "").replace(/\.\d+$/, "");
    arms.set(arm, [...(arms.get(arm) ?? []), part]);
  }
  if (arms.size > 1) {
    const choice = Object.assign(document.createElement("fieldset"), { className: "arms" });
    choice.append(Object.assign(document.createElement("legend"), { textContent: "Arms shown" }));
    for (const [arm, parts] of arms) {
      const label = document.createElement("label");
      const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
      box.onchange = () => parts.forEach((part) => part.setAttribute("visibility", box.checked ? "visible" : "hidden"));
      label.append(box, ` ${arm}`);
      choice.append(label);
    }
    figure.prepend(choice);
  }
}

// Show only figures, rows and findings that have every word of the filter, in their text or their section's heading.
const filter = document.querySelector("#filter"), matches = document.querySelector("#matches");
if (filter) {
  filter.closest(".filter").hidden = false;
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const part of document.querySelectorAll(".part")) {
      const heading = part.querySelector("h2, h3").textContent.toLowerCase();
      let kept = 0;
      const pieces = part.matches(".card") ? [part] : part.querySelectorAll("figure, tbody tr:not(:has(th[scope=rowgroup])), .findings li");
      for (const piece of pieces) {
        const text = `${heading} ${piece.textContent.toLowerCase()}`;
        piece.hidden = !words.every((word) => text.includes(word));
        kept += !piece.hidden;
      }
      part.hidden = words.length > 0 && !kept;
      shown += kept;
    }
    matches.textContent = words.length ? `${shown} found` : "";
  });
}
