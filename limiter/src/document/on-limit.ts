// Defines what happens to a request over the limit: it is refused, waits, gets something cheaper, or goes on with a mark.

import { emptyTable } from "../basics/table.ts";
import { isWordCode } from "../key/key-part.ts";
import { parseDuration } from "./duration.ts";
import { type Findings, replaceProblem } from "./problems.ts";
import { fieldNames, type Shape } from "./shape.ts";

export type OnLimit = Reject | Delay | Degrade | Tag;

export interface Reject {
  readonly action: "reject";
  readonly status: number;
  /** Replaces the problem document. */
  readonly body: string | undefined;
  readonly headers: readonly HeaderLines[];
}

/** The request waits. If the wait would be too long, or too many are waiting, it is refused as by `reject`. */
export interface Delay {
  readonly action: "delay";
  readonly maxDelayUs: number;
  /** The bound holds for each worker. */
  readonly maxWaiting: number;
  readonly otherwise: Reject;
}

export interface Degrade {
  readonly action: "degrade";
  /** A path of this server, or a named location: "@cached". */
  readonly target: string | undefined;
  readonly response: Reject | undefined;
  /** The header is passed upstream. */
  readonly header: HeaderLine | undefined;
}

export interface Tag {
  readonly action: "tag";
  /** The header is passed upstream. */
  readonly header: HeaderLine;
}

export interface HeaderLine {
  readonly name: string;
  readonly value: string;
}

/** All header lines of one name. */
export interface HeaderLines {
  readonly name: string;
  readonly value: string | readonly string[];
}

type Json = Record<string, unknown>;

const statusUnlessSaid = 429;
const maxWaitingUnlessSaid = 100;

const headerLine: Shape = {
  kind: "text",
  expected: 'a header line like "x-over-limit: 1", and none that nginx itself writes',
  maxBytes: 1024,
  accepts: (text) => parseHeaderLine(text) !== undefined,
};

const body: Shape = { kind: "text", expected: "text of at most 16384 bytes", maxBytes: 16_384 };
const headers: Shape = { kind: "list", of: headerLine, minItems: 0, maxItems: 16 };

export const onLimitShape: Shape & { kind: "record" } = {
  kind: "record",
  fields: {
    action: {
      shape: { kind: "choice", of: ["reject", "delay", "degrade", "tag"] },
      description: "What a refusal does.",
      default: "reject",
    },
    status: {
      shape: { kind: "integer", min: 400, max: 599 },
      description: "reject, delay: status of the refusal.",
      default: statusUnlessSaid,
    },
    body: { shape: body, description: "reject, delay: the refusal's body, in place of a problem document." },
    headers: { shape: headers, description: "reject, delay: header lines of the refusal.", default: [] },
    maxDelay: {
      shape: { kind: "duration", min: "1ms", max: "5m" },
      description: "delay: how long a request may wait in all. Required there.",
    },
    maxWaiting: {
      shape: { kind: "integer", min: 1, max: 100_000 },
      description: "delay: how many may wait at once, on each worker. Absent: 100.",
    },
    uri: {
      shape: {
        kind: "text",
        expected: 'a path beginning with one "/", without ".." and %00',
        maxBytes: 1024,
        accepts: isPath,
      },
      description: "degrade: where nginx sends the request instead, internally.",
    },
    location: {
      shape: {
        kind: "text",
        expected: 'a named location of nginx.conf, like "@cached"',
        maxBytes: 128,
        accepts: isLocation,
      },
      description: "degrade: the named location that serves the request instead.",
    },
    response: {
      shape: {
        kind: "record",
        fields: {
          status: { shape: { kind: "integer", min: 200, max: 599 }, description: "Its status.", default: 200 },
          body: { shape: body, description: "Its body.", default: "" },
          headers: { shape: headers, description: "Its header lines.", default: [] },
        },
      },
      description: "degrade: the answer that the request gets instead.",
    },
    header: { shape: headerLine, description: "degrade, tag: the request goes on upstream, with this header." },
  },
};

export const onLimitFields = fieldNames(onLimitShape);

const degradations = ["uri", "location", "response", "header"];

const fieldsOfActions = emptyTable<readonly string[]>();
fieldsOfActions["reject"] = ["status", "body", "headers"];
fieldsOfActions["delay"] = ["status", "body", "headers", "maxDelay", "maxWaiting"];
fieldsOfActions["degrade"] = degradations;
fieldsOfActions["tag"] = ["header"];

/** Returns the fields that an action has besides its name; undefined: there is no such action. */
export function fieldsOfAction(action: unknown): readonly string[] | undefined {
  return typeof action === "string" ? fieldsOfActions[action] : undefined;
}

/** Checks the rules between its fields. @param onLimit of the right shape, or reported already */
export function checkOnLimit(onLimit: Json, findings: Findings): void {
  const action = onLimit["action"] ?? "reject";
  const own = fieldsOfAction(action);
  if (own === undefined) return;
  for (const name in onLimitShape.fields) {
    if (name !== "action" && onLimit[name] !== undefined && !own.includes(name)) {
      replaceProblem(findings, { path: `onLimit.${name}`, expected: `nothing: ${action} has no ${name}`, got: "one" });
    }
  }
  if (action === "delay" && onLimit["maxDelay"] === undefined) {
    replaceProblem(findings, { path: "onLimit.maxDelay", expected: "how long a request may wait", got: "nothing" });
  }
  if (action === "tag" && onLimit["header"] === undefined) {
    replaceProblem(findings, { path: "onLimit.header", expected: "the header to send upstream", got: "nothing" });
  }
  if (action !== "degrade") return;
  const given = degradations.filter((name) => onLimit[name] !== undefined);
  if (given.length === 1) return;
  const got = given.length === 0 ? "none of them" : given.join(", ");
  replaceProblem(findings, { path: "onLimit", expected: `one of ${degradations.join(", ")}`, got });
}

/** @param onLimit without problems */
export function onLimitFrom(onLimit: Json): OnLimit {
  const action = onLimit["action"] ?? "reject";
  if (action === "tag") return { action, header: headerFrom(onLimit["header"] as string) };
  if (action === "degrade") {
    const { response, header } = onLimit;
    return {
      action,
      target: (onLimit["uri"] ?? onLimit["location"]) as string | undefined,
      response: response === undefined ? undefined : rejectFrom({ status: 200, body: "", ...(response as Json) }),
      header: header === undefined ? undefined : headerFrom(header as string),
    };
  }
  const reject = rejectFrom(onLimit);
  if (action !== "delay") return reject;
  return {
    action,
    maxDelayUs: parseDuration(onLimit["maxDelay"] as string) as number,
    maxWaiting: (onLimit["maxWaiting"] ?? maxWaitingUnlessSaid) as number,
    otherwise: reject,
  };
}

function rejectFrom(answer: Json): Reject {
  return {
    action: "reject",
    status: (answer["status"] ?? statusUnlessSaid) as number,
    body: answer["body"] as string | undefined,
    headers: headersFrom((answer["headers"] ?? []) as string[]),
  };
}

function headersFrom(lines: readonly string[]): HeaderLines[] {
  const names: string[] = [];
  const values: Record<string, string[]> = emptyTable();
  for (const line of lines) {
    const { name, value } = headerFrom(line);
    const others = values[name];
    if (others !== undefined) {
      others.push(value);
    } else {
      names.push(name);
      values[name] = [value];
    }
  }
  return names.map((name) => {
    const own = values[name] as string[];
    return { name, value: own.length === 1 ? (own[0] as string) : own };
  });
}

function headerFrom(line: string): HeaderLine {
  return parseHeaderLine(line) as HeaderLine;
}

/** These headers determine where a message ends, or how it is carried. */
const framing = ["connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/** Parses `name: value`; neither part can end a line. */
function parseHeaderLine(line: string): HeaderLine | undefined {
  const colon = line.indexOf(":");
  if (colon < 1) return undefined;
  const written = line.slice(0, colon);
  let start = colon + 1;
  while (start < line.length && line.charCodeAt(start) === 32) start += 1;
  const value = line.slice(start);
  for (let i = 0; i < written.length; i++) {
    const code = written.charCodeAt(i);
    const isLetterOrDigit = isWordCode(code) && code !== 95;
    if (!isLetterOrDigit && code !== 45) return undefined;
  }
  // Not before: JavaScript makes an ASCII letter of one that Lua leaves as it is.
  const name = written.toLowerCase();
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    if (code < 32 || code === 127) return undefined;
  }
  return value === "" || framing.includes(name) ? undefined : { name, value };
}

/**
 * Returns whether nginx can go to this path internally. It goes nowhere if the path has a NUL or a "..", percent-encoded or not,
 * and then the request would pass.
 */
export function isPath(text: string): boolean {
  // Elsewhere two slashes begin the name of another host.
  if (text.startsWith("//")) return false;
  if (!text.startsWith("/")) return false;
  const path = (text.split("?")[0] as string).toLowerCase();
  if (path.includes("%00")) return false;
  const decoded = path.split("%2e").join(".").split("%2f").join("/");
  if (`${decoded}/`.includes("/../")) return false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code <= 32 || code >= 127) return false;
  }
  return true;
}

export function isLocation(text: string): boolean {
  if (!text.startsWith("@") || text.length < 2) return false;
  for (let i = 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    const isWord = (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57);
    if (!isWord && code !== 45 && code !== 95) return false;
  }
  return true;
}
