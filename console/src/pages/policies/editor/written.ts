// Parts of a document that the form shows as lines of text: headers, the windows of a schedule, and keys of several parts.

/** "x-plan: free, trial" in each line. A value with a comma is in quotation marks. @returns undefined: there is none */
export function headersOf(text: string): unknown {
  const headers: Record<string, string[]> = {};
  for (const line of filled(text)) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon).trim();
    headers[name] = colon < 0 ? [] : listOf(line.slice(colon + 1));
  }
  return orNothing(headers);
}

export function textOfHeaders(value: unknown): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "";
  return Object.entries(value)
    .map(([name, values]) => `${name}: ${[values].flat().map(quotedIfNeeded).join(", ")}`)
    .join("\n");
}

function listOf(text: string): string[] {
  const found = text.match(/\s*("(?:[^"\\]|\\.)*"|[^,]*)\s*/g) ?? [];
  return filledOf(found).map(unquoted);
}

function quotedIfNeeded(value: unknown): string {
  const text = String(value);
  return /^$|[,"\n\r]|^\s|\s$/.test(text) ? JSON.stringify(text) : text;
}

function unquoted(text: string): string {
  if (!/^".*"$/.test(text)) return text;
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

const notSecret = ": false";

/** A secret part of the key in each line; one that is not secret ends with ": false". @returns undefined: there is none */
export function secretOf(text: string): unknown {
  const secret: Record<string, boolean> = {};
  for (const line of filled(text)) {
    const isSecret = !line.endsWith(notSecret);
    secret[isSecret ? line : line.slice(0, -notSecret.length)] = isSecret;
  }
  return orNothing(secret);
}

export function textOfSecret(value: unknown): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "";
  return Object.entries(value)
    .map(([part, isSecret]) => (isSecret === false ? part + notSecret : part))
    .join("\n");
}

/** "mon tue 08:00-18:00" in each line, or "08:00-18:00" for every day. */
export function windowsOf(text: string): unknown {
  const windows = filled(text).map((line) => {
    const words = items(line.replaceAll(",", " "), " ");
    const [from = "", to = ""] = (words.pop() ?? "").split("-");
    return { ...(words.length === 0 ? {} : { days: words }), from, to };
  });
  return windows.length === 0 ? undefined : windows;
}

export function textOfWindows(value: unknown): string {
  if (!Array.isArray(value)) return "";
  return (
    value
      // Somebody may be in the middle of typing it.
      .map((window: { days?: unknown; from?: unknown; to?: unknown } | null) => {
        const days = [window?.days ?? []].flat();
        return [...days, `${window?.from ?? ""}-${window?.to ?? ""}`].join(" ");
      })
      .join("\n")
  );
}

/** The values of a key in each line; between values of several parts there is " | ". A key that no such line can have is a list in JSON. */
export function keysOf(text: string): unknown {
  const keys = filled(text).map((line) => listIn(line) ?? line.split(" | ").map((part) => part.trim()));
  return keys.length === 0 ? undefined : keys;
}

export function textOfKeys(value: unknown): string {
  return Array.isArray(value) ? value.map((key) => textOfKey([key].flat())).join("\n") : "";
}

function textOfKey(parts: readonly unknown[]): string {
  const text = parts.join(" | ");
  const list = JSON.stringify(parts);
  return JSON.stringify(keysOf(text)) === `[${list}]` ? text : list;
}

function listIn(line: string): unknown[] | undefined {
  if (!/^\[.*\]$/.test(line)) return undefined;
  try {
    return JSON.parse(line) as unknown[];
  } catch {
    return undefined;
  }
}

function filled(text: string): string[] {
  return items(text, "\n");
}

function items(text: string, separator: string): string[] {
  return filledOf(text.split(separator));
}

function filledOf(texts: readonly string[]): string[] {
  return texts.map((one) => one.trim()).filter((one) => one !== "");
}

function orNothing(value: Record<string, unknown>): unknown {
  return Object.keys(value).length === 0 ? undefined : value;
}
