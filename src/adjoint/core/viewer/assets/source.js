// The source pane: the user's lines, with a mark at those that made nodes.

const sourcePanel = document.getElementById("panel-source");
const lineElements = new Map();

const KEYWORDS = new Set(("False None True and as assert async await break class continue def del elif else except finally for " +
  "from global if import in is lambda nonlocal not or pass raise return try while with yield self").split(" "));
const TOKEN = /(#.*$)|("""[^]*?"""|'''[^]*?'''|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(\b\d[\w.]*)|([A-Za-z_]\w*)/g;

function showSource() {
  lineElements.clear();
  const parts = files.flatMap((file, i) => {
    const title = make("h3", { title: file.path }, file.name);
    const runs = (file.parts ?? []).map(([first, texts]) => {
      const list = make("ol", { class: "code", start: first });
      texts.forEach((text, k) => list.append(sourceLine(`${i}:${first + k}`, first + k, text)));
      return list;
    });
    return [title, ...(runs.length ? runs : [make("p", { class: "dim" }, "The source of this file is not at hand.")])];
  });
  sourcePanel.replaceChildren(...(parts.length ? parts : [make("p", { class: "dim" }, "No line of yours is known.")]));
}

function sourceLine(key, number, text) {
  const nodes = itemsOfLine(key);
  const element = make("li", { "data-source": key, value: number });
  const count = make("span", { class: "count", title: nodes.length ? countOf(nodes.length, "node") : "" }, nodes.length ? nodes.length.toLocaleString("en") : "");
  element.append(count, make("span", { class: "number" }, String(number)), make("code", {}, ...colourTokens(text)));
  if (nodes.length) {
    element.classList.add("maker");
    element.setAttribute("tabindex", "0");
    element.setAttribute("role", "button");
  }
  lineElements.set(key, element);
  return element;
}

// Python's words, texts, numbers and comments in colours.
function colourTokens(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    const kind = match[1] ? "comment" : match[2] ? "text" : match[3] ? "digits" : KEYWORDS.has(match[4]) ? "keyword" : "";
    if (!kind) continue;
    parts.push(text.slice(at, match.index), make("span", { class: `token-${kind}` }, match[0]));
    at = match.index + match[0].length;
  }
  return [...parts, text.slice(at) || " "];
}

function markLines(lines) {
  for (const [key, element] of lineElements) {
    element.classList.toggle("lit", lines.has(key));
    element.classList.toggle("selected", key === selectedLine);
  }
}

function scrollToLine(key) {
  const element = lineElements.get(key);
  if (!element || !sourcePanel.offsetHeight) return;
  const top = element.offsetTop - sourcePanel.offsetTop;
  const isShown = top >= sourcePanel.scrollTop && top < sourcePanel.scrollTop + sourcePanel.clientHeight - 20;
  if (!isShown) sourcePanel.scrollTop = Math.max(0, top - sourcePanel.clientHeight / 3);
}

sourcePanel.addEventListener("pointerover", (event) => {
  const line = event.target.closest("li.maker");
  point(line ? itemsOfLine(line.dataset.source).map((item) => item.key) : null);
});
sourcePanel.addEventListener("pointerleave", () => point(null));
sourcePanel.addEventListener("click", (event) => {
  const line = event.target.closest("li.maker");
  if (line) selectLine(line.dataset.source);
});
sourcePanel.addEventListener("keydown", (event) => {
  const line = event.target.closest("li.maker");
  if (line && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    selectLine(line.dataset.source);
  }
});
