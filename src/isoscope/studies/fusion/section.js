// Interactive feature dynamics: four sliders, a dot per sentence, the text of the sentence under the pointer. Loads nothing.
for (const root of document.querySelectorAll(".explorer")) {
  const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  const svg = root.querySelector("svg"), said = root.querySelector("output.sentence"), facts = root.querySelector(".facts");
  const slider = (name) => root.querySelector(`input[name='${name}']`);
  const arms = [...new Set(data.runs.map((run) => run.arm))];
  const seeds = [...new Set(data.runs.map((run) => run.seed))];
  const COLOURS = ["#0080c0", "#d55e00", "#009e73", "#b5519f", "#a67c00", "#5b86b0", "#a65628", "#7a7a7a"];
  const NONE = "#8a8f96";
  const colour = (label) => (data.classes[label] === undefined ? NONE : COLOURS[label % COLOURS.length]);
  const called = (label) => data.classes[label] ?? "no class";
  for (const label of [...new Set(data.labels)].sort((one, other) => one - other)) {
    const entry = document.createElement("li"), swatch = document.createElement("span");
    swatch.style.background = colour(label);
    entry.append(swatch, /^\d+$/.test(called(label)) ? `class ${called(label)}` : called(label));
    root.querySelector(".legend").append(entry);
  }
  const NS = "http://www.w3.org/2000/svg";
  const dots = data.sentences.map((sentence, number) => {
    const dot = document.createElementNS(NS, "circle");
    dot.setAttribute("r", 9);
    dot.setAttribute("fill", colour(data.labels[number]));
    dot.setAttribute("fill-opacity", 0.75);
    const say = () => { said.textContent = `${called(data.labels[number])}: ${sentence}`; dot.setAttribute("r", 16); };
    dot.addEventListener("pointerenter", say);
    dot.addEventListener("pointerleave", () => dot.setAttribute("r", 9));
    svg.append(dot);
    return dot;
  });
  const current = () => data.runs.find((run) => run.arm === arms[+slider("arm").value] && run.seed === seeds[+slider("seed").value]);
  const show = (name, text) => { slider(name).nextElementSibling.textContent = text; slider(name).setAttribute("aria-valuetext", text); };
  const draw = () => {
    const run = current();
    if (!run) { facts.textContent = "No such run."; dots.forEach((dot) => dot.setAttribute("visibility", "hidden")); return; }
    slider("layer").max = run.layers.length - 1;
    slider("snapshot").max = run.steps.length - 1;
    const layer = +slider("layer").value, snapshot = +slider("snapshot").value, explained = run.explained[layer][snapshot];
    show("arm", run.arm);
    show("seed", String(run.seed));
    show("layer", String(run.layers[layer]));
    show("snapshot", `update ${run.steps[snapshot]}${snapshot === run.best ? " (chosen)" : ""}`);
    const points = run.points[layer][snapshot];
    dots.forEach((dot, number) => {
      dot.setAttribute("visibility", explained ? "visible" : "hidden");
      dot.setAttribute("cx", points[2 * number]);
      dot.setAttribute("cy", -points[2 * number + 1]);
    });
    facts.textContent = explained
      ? `x: first ${data.axis}, ${(100 * explained[0]).toFixed(1)} % of this snapshot's variance; y: second, ${(100 * explained[1]).toFixed(1)} %.`
      : "All sentences share their vectors here: there is nothing to show.";
  };
  slider("arm").max = arms.length - 1;
  slider("seed").max = seeds.length - 1;
  slider("layer").max = data.runs[0].layers.length - 1;
  slider("layer").value = data.runs[0].layers.length - 1;
  slider("snapshot").max = data.runs[0].steps.length - 1;
  slider("snapshot").value = data.runs[0].best;
  for (const name of ["arm", "seed", "layer", "snapshot"]) slider(name).addEventListener("input", draw);
  draw();
}
