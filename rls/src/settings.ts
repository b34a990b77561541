// Reads the SLUICE_RLS_ variables once, at the start, and refuses those that it does not know. Every mistake is found at once: each has
// the variable's name, what was expected and what came. An empty variable counts as not set; the token is never repeated.

import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import type { OnFailure } from "./decisions.ts";
import { DescriptorMap, MapError } from "./descriptor-map.ts";

export interface Settings {
  readonly host: string;
  readonly port: number;
  /** The gateway's private listener. */
  readonly gateway: string;
  readonly token: string;
  readonly deadlineMs: number;
  readonly onFailure: OnFailure;
  readonly withHeaders: boolean;
  readonly maxPending: number;
  /** Undefined: the names in the descriptors say which policy is asked. */
  readonly map: DescriptorMap | undefined;
}

export class SettingsError extends Error {
  /** @param mistakes a sentence for each */
  constructor(mistakes: readonly string[]) {
    super(mistakes.join("\nsluice: "));
    this.name = "SettingsError";
  }
}

const names: readonly string[] = [
  "SLUICE_RLS_DEADLINE_MS",
  "SLUICE_RLS_GATEWAY",
  "SLUICE_RLS_HEADERS",
  "SLUICE_RLS_HOST",
  "SLUICE_RLS_MAP",
  "SLUICE_RLS_MAX_PENDING",
  "SLUICE_RLS_ON_FAILURE",
  "SLUICE_RLS_PORT",
  "SLUICE_RLS_TOKEN",
];

/** @throws SettingsError with all mistakes */
export function readSettings(environment: NodeJS.ProcessEnv): Settings {
  const mistakes: string[] = [];
  const refuse = (name: string, expected: string, got: string) =>
    mistakes.push(`${name}: expected ${expected}, got ${got}`);
  const read = <T>(name: string, fallback: T, expected: string, parse: (text: string) => T | undefined): T => {
    const text = environment[name];
    if (text === undefined || text === "") return fallback;
    const value = parse(text);
    // A URL may have a password before its @, and a key in its query.
    if (value === undefined)
      refuse(
        name,
        expected,
        /[@?#]|\/\/.*:\d*[^\d/]/.test(text) ? "a text that may have a password" : JSON.stringify(text),
      );
    return value ?? fallback;
  };
  const whole = (name: string, fallback: number, least: number, most: number) =>
    read(name, fallback, `a whole number from ${least} to ${most}`, (text) => {
      const value = /^[0-9]{1,7}$/.test(text) ? Number(text) : -1;
      return value >= least && value <= most ? value : undefined;
    });

  for (const name of Object.keys(environment)
    .filter((one) => one.startsWith("SLUICE_RLS_"))
    .sort()) {
    if (!names.includes(name)) refuse(name, `one of ${names.join(", ")}`, "a variable of this name");
  }
  const settings: Settings = {
    host: read("SLUICE_RLS_HOST", "127.0.0.1", "an IP address to listen on, such as 127.0.0.1 or 0.0.0.0", (text) =>
      isIP(text) === 0 ? undefined : text,
    ),
    port: whole("SLUICE_RLS_PORT", 8083, 0, 65_535),
    gateway: read(
      "SLUICE_RLS_GATEWAY",
      "http://127.0.0.1:8079",
      "the gateway's private listener: http://HOST:PORT, https://HOST:PORT or unix:/PATH",
      gatewayOf,
    ),
    token: environment["SLUICE_RLS_TOKEN"] ?? "",
    deadlineMs: whole("SLUICE_RLS_DEADLINE_MS", 1000, 1, 60_000),
    onFailure: read("SLUICE_RLS_ON_FAILURE", "error", "error, allow or deny", (text) =>
      text === "error" || text === "allow" || text === "deny" ? text : undefined,
    ),
    withHeaders: read("SLUICE_RLS_HEADERS", false, "true or false", (text) =>
      text === "true" ? true : text === "false" ? false : undefined,
    ),
    maxPending: whole("SLUICE_RLS_MAX_PENDING", 10_000, 1, 1_000_000),
    map: readMap(environment["SLUICE_RLS_MAP"], refuse),
  };
  if (!/^[\x21-\x7e]+$/.test(settings.token)) {
    const got = settings.token === "" ? "nothing" : "blanks or other characters in it";
    refuse("SLUICE_RLS_TOKEN", "a caller token of the app whose policies are asked", got);
  }
  if (mistakes.length > 0) throw new SettingsError(mistakes);
  return Object.freeze(settings);
}

function gatewayOf(text: string): string | undefined {
  if (/^unix:\/./.test(text)) return text;
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) return undefined;
  const { href, origin } = new URL(text);
  return href === `${origin}/` ? origin : undefined;
}

function readMap(
  path: string | undefined,
  refuse: (name: string, expected: string, got: string) => void,
): DescriptorMap | undefined {
  if (path === undefined || path === "") return undefined;
  try {
    return new DescriptorMap(readFileSync(path, "utf8"));
  } catch (error) {
    if (error instanceof MapError) refuse("SLUICE_RLS_MAP", `in ${path}, ${error.expected}`, error.got);
    else
      refuse("SLUICE_RLS_MAP", "a file that can be read", `${path}: ${(error as NodeJS.ErrnoException).code ?? error}`);
    return undefined;
  }
}
