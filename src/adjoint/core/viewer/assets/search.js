// Search: nodes and boxes whose name, second line, kind or line of source has all words.

const searchField = document.getElementById("search");
const hitList = document.getElementById("hits");
const MAX_HITS = 60;
let chosenHit = -1;

function searchText(item) {
  const lines = (item.data.sites ?? []).map(([file, line]) => `${files[file].name}:${line}`);
  const badges = item.data.badges ?? [];
  return [item.label, item.data.subtitle, item.data.kind, ...badges, ...lines].filter(Boolean).join(" ").toLowerCase();
}

function findItems(words) {
  if (!words.length) return [];
  const found = [...model.items.values()].filter((item) => {
    item.searchText ??= searchText(item);
    return words.every((word) => item.searchText.includes(word));
  });
  const rank = (item) => (item.label.toLowerCase().startsWith(words[0]) ? 0 : 1);
  return found.sort((a, b) => rank(a) - rank(b));
}

function showHits() {
  const found = findItems(searchField.value.toLowerCase().split(/\s+/).filter(Boolean));
  chosenHit = found.length ? 0 : -1;
  hitList.replaceChildren(...found.slice(0, MAX_HITS).map((item, i) => {
    const path = boxesAround(item).map((box) => box.label).join(" › ");
    const entry = make("li", { "data-key": item.key, class: i === 0 ? "chosen" : "" }, make("b", {}, item.label), make("span", {}, item.data.subtitle ?? ""), make("small", {}, path));
    return entry;
  }));
  if (found.length > MAX_HITS) hitList.append(make("li", { class: "dim" }, `and ${found.length - MAX_HITS} more`));
  if (!found.length && searchField.value.trim()) hitList.append(make("li", { class: "dim" }, "nothing has this name"));
  hitList.hidden = !searchField.value.trim();
  point(found.length ? found.map((item) => item.key) : null);
}

function closeHits() {
  hitList.hidden = true;
  point(null);
}

function chooseHit(entry) {
  if (!entry?.dataset.key) return;
  closeHits();
  select(entry.dataset.key, { isShown: true });
  canvas.focus();
}

searchField.addEventListener("input", showHits);
searchField.addEventListener("focus", () => searchField.value.trim() && showHits());
searchField.addEventListener("blur", () => setTimeout(closeHits, 150));
hitList.addEventListener("pointerdown", (event) => {
  event.preventDefault();
  chooseHit(event.target.closest("li"));
});
searchField.addEventListener("keydown", (event) => {
  const entries = [...hitList.querySelectorAll("li[data-key]")];
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    chosenHit = Math.max(0, Math.min(entries.length - 1, chosenHit + (event.key === "ArrowDown" ? 1 : -1)));
    entries.forEach((entry, i) => entry.classList.toggle("chosen", i === chosenHit));
    entries[chosenHit]?.scrollIntoView({ block: "nearest" });
  } else if (event.key === "Enter") {
    chooseHit(entries[chosenHit]);
  } else if (event.key === "Escape") {
    searchField.value = "";
    closeHits();
    canvas.focus();
  }
  event.stopPropagation();
});
