// Actions on several connectors: choose rows, confirm the names, then one request for each, with its own result.

import { announce, refresh } from "./live.js";
import { request } from "./rest.js";

const main = document.getElementById("main");
const dialog = document.getElementById("bulk-dialog");
const title = document.getElementById("bulk-title");
const text = document.getElementById("bulk-text");
const list = document.getElementById("bulk-list");
const option = document.getElementById("bulk-option");
const optionRow = document.getElementById("bulk-option-row");
const no = document.getElementById("bulk-no");
const yes = document.getElementById("bulk-yes");

let action = null;
let chosen = [];
let isUnderWay = false;

function boxes() {
  return [...main.querySelectorAll("input[data-choose]")];
}

function visible() {
  return boxes().filter((box) => !box.closest("tr").hidden);
}

// A connector that the filter hides is not chosen: no action may reach what the user does not see.
function count() {
  for (const box of boxes()) if (box.closest("tr").hidden) box.checked = false;
  const number = boxes().filter((box) => box.checked).length;
  const all = document.getElementById("choose-all");
  const shown = document.getElementById("chosen-count");
  if (!all || !shown) return;
  all.checked = number > 0 && number === visible().length;
  all.indeterminate = number > 0 && !all.checked;
  shown.textContent = `${number} chosen`;
}

function item(name) {
  const made = document.createElement("li");
  const result = document.createElement("span");
  made.append(name, result);
  list.append(made);
  return result;
}

function open(button) {
  action = { ...button.dataset };
  chosen = boxes().filter((box) => box.checked);
  if (!chosen.length) {
    announce("Choose connectors first.");
    return;
  }
  const what = chosen.length === 1 ? "1 connector" : `${chosen.length} connectors`;
  title.textContent = `${button.textContent} ${what}?`;
  text.textContent = action.text;
  list.replaceChildren();
  for (const box of chosen) item(box.dataset.choose);
  optionRow.hidden = !action.option;
  option.checked = false;
  document.getElementById("bulk-option-text").textContent = action.option ?? "";
  no.textContent = "Cancel";
  yes.textContent = button.textContent;
  yes.hidden = false;
  yes.classList.toggle("danger", button.classList.contains("danger"));
  dialog.showModal();
  no.focus();
}

async function perform() {
  const query = option.checked ? (action.optionQuery ?? "") : "";
  isUnderWay = true;
  yes.hidden = optionRow.hidden = no.hidden = true;
  title.textContent = "Waiting for the worker …";
  title.focus();
  list.replaceChildren();
  const results = chosen.map((box) => [box, item(box.dataset.choose)]);
  let failed = 0;
  for (const [box, result] of results) {
    result.textContent = ": …";
    try {
      await request(action.bulkMethod, `/connectors/${encodeURIComponent(box.dataset.choose)}${action.bulkPath}${query}`);
      result.textContent = `: ${action.done}`;
      box.checked = false;
    } catch (error) {
      failed += 1;
      result.textContent = `: ${error.message}`;
      result.className = "refused";
    }
  }
  isUnderWay = false;
  const total = results.length;
  title.textContent = failed ? `${failed} of ${total} failed` : `Done: ${total} of ${total}`;
  text.textContent = failed ? "Those that failed stay chosen." : "";
  no.hidden = false;
  no.textContent = "Close";
  no.focus();
  await refresh();
  count();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-bulk]");
  if (button) open(button);
});
main.addEventListener("change", (event) => {
  if (event.target.id === "choose-all") for (const box of visible()) box.checked = event.target.checked;
  count();
});
main.addEventListener("input", (event) => {
  if (event.target.id === "filter") count();
});
main.addEventListener("shown", count);
dialog.addEventListener("cancel", (event) => {
  if (isUnderWay) event.preventDefault();
});
no.addEventListener("click", () => dialog.close());
yes.addEventListener("click", perform);
count();
