// Requests to the REST API: JSON, from this page's own origin. Errors have the worker's own message.

export async function request(method, path, body) {
  let answer;
  try {
    answer = await fetch(location.origin + path, {
      method,
      mode: "same-origin",
      headers: { Accept: "application/json", "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    throw new Error(`The worker is unreachable: ${error.message}`);
  }
  const text = await answer.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    if (answer.ok) throw new Error("The worker's answer is not JSON.");
  }
  if (!answer.ok) throw new Error(value?.message ?? `The worker answered with ${answer.status}.`);
  return value;
}
