// Update the page: fetch it again every two seconds and update <main>, without losing focus or open details.

const PERIOD_MS = 2000;
const LONGEST_MS = 30000;
const main = document.getElementById("main");
const notice = document.getElementById("notice");
const alarm = document.getElementById("alarm");
const follow = document.getElementById("follow");

let wait = PERIOD_MS;
let timer = 0;
let isRefreshing = false;
let lastSeen = new Date();
let isCutOff = false;

export function announce(text) {
  notice.textContent = text;
}

function isSame(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id ?? "") === (other.id ?? "");
}

function morphAttributes(current, wanted) {
  for (const { name, value } of wanted.attributes) {
    if (current.getAttribute(name) !== value) current.setAttribute(name, value);
  }
  for (const { name } of [...current.attributes]) {
    // Keep what the user has opened, typed or filtered.
    if (!wanted.hasAttribute(name) && name !== "open" && name !== "hidden") current.removeAttribute(name);
  }
}

// Change one tree to match the other. Elements with an id keep their identity.
export function morph(current, wanted) {
  if (current.nodeType !== Node.ELEMENT_NODE) {
    if (current.nodeValue !== wanted.nodeValue) current.nodeValue = wanted.nodeValue;
    return;
  }
  morphAttributes(current, wanted);
  const staying = new Set([...wanted.children].map((child) => child.id).filter(Boolean));
  const keyed = new Map([...current.children].filter((child) => child.id).map((child) => [child.id, child]));
  let position = current.firstChild;
  for (const next of [...wanted.childNodes]) {
    while (position?.id && !staying.has(position.id)) position = dropped(position);
    const match = (next.id && keyed.get(next.id)) || (position && isSame(position, next) ? position : null);
    if (match && isSame(match, next)) {
      // Remove elements before it that do not stay: moving it instead would lose the focus.
      while (position !== match && position && !(position.id && staying.has(position.id))) position = dropped(position);
      if (match === position) position = position.nextSibling;
      else current.insertBefore(match, position);
      morph(match, next);
    } else {
      current.insertBefore(document.importNode(next, true), position);
    }
  }
  while (position) position = dropped(position);
}

function dropped(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function states() {
  return new Map([...main.querySelectorAll("[data-watched]")].map((element) => [element.dataset.watched, element.dataset.state]));
}

function announceChanges(before, after) {
  const changes = [];
  for (const [name, state] of after) {
    if (!before.has(name)) changes.push(`${name} is new and ${state}.`);
    else if (before.get(name) !== state) changes.push(`${name} is ${state} now.`);
  }
  for (const name of before.keys()) if (!after.has(name)) changes.push(`${name} was deleted.`);
  if (changes.length) announce(changes.length > 5 ? `${changes.length} states have changed.` : changes.join(" "));
}

function show(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const wanted = page.getElementById("main");
  if (!wanted) throw new Error("the answer is not a page of the console");
  const before = states();
  const focused = document.activeElement;
  morph(main, wanted);
  document.title = page.title;
  filter();
  main.dispatchEvent(new CustomEvent("shown"));
  if (focused && focused !== document.body && !focused.isConnected) {
    (main.querySelector("#actions button") ?? main).focus();
  }
  announceChanges(before, states());
}

export async function refresh() {
  if (isRefreshing) return;
  isRefreshing = true;
  clearTimeout(timer);
  try {
    const answer = await fetch(location.origin + location.pathname + location.search, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (!answer.headers.get("Content-Type")?.startsWith("text/html")) throw new Error(`it answered with ${answer.status}`);
    show(await answer.text());
    if (isCutOff) alarm.textContent = "";
    isCutOff = false;
    lastSeen = new Date();
    wait = PERIOD_MS;
  } catch (error) {
    const since = lastSeen.toLocaleTimeString();
    const text = `The worker is unreachable (${error.message}). This data is from ${since}.`;
    isCutOff = true;
    if (alarm.textContent !== text) alarm.textContent = text;
    wait = Math.min(wait * 2, LONGEST_MS);
  } finally {
    isRefreshing = false;
    schedule();
  }
}

function schedule() {
  clearTimeout(timer);
  if (isFollowing() && !document.hidden) timer = setTimeout(refresh, wait);
}

function isFollowing() {
  return follow.getAttribute("aria-pressed") === "true";
}

function filter() {
  const wanted = (document.getElementById("filter")?.value ?? "").toLowerCase();
  for (const row of main.querySelectorAll("tr[data-name]")) {
    row.hidden = !row.dataset.name.toLowerCase().includes(wanted);
  }
}

follow.hidden = false;
if (sessionStorage.getItem("follow") === "no") follow.setAttribute("aria-pressed", "false");
follow.addEventListener("click", () => {
  const isOn = !isFollowing();
  follow.setAttribute("aria-pressed", String(isOn));
  sessionStorage.setItem("follow", isOn ? "yes" : "no");
  announce(isOn ? "Live updates are on." : "Live updates are off.");
  if (isOn) refresh();
  else clearTimeout(timer);
});
main.addEventListener("input", (event) => {
  if (event.target.id === "filter") filter();
});
main.addEventListener("change", (event) => {
  const { query } = event.target.dataset;
  if (!query) return;
  const wanted = new URL(location.href);
  if (event.target.value) wanted.searchParams.set(query, event.target.value);
  else wanted.searchParams.delete(query);
  location.assign(wanted);
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && isFollowing()) refresh();
});
schedule();
