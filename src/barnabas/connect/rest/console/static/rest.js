// One way to ask the REST API: JSON, from this page's own origin, with the worker's own words when it says no.

export async function ask(method, path, body) {
  let answer;
  try {
    answer = await fetch(location.origin + path, {
      method,
      mode: "same-origin",
      headers: { Accept: "application/json", "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    throw new Error(`The worker can't be asked: ${error.message}`);
  }
  const text = await answer.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    if (answer.ok) throw new Error("The worker's answer is no JSON.");
  }
  if (!answer.ok) throw new Error(value?.message ?? `The worker answered with ${answer.status}.`);
  return value;
}
