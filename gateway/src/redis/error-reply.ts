// An error reply of Redis says where to send the script instead, and whether it was executed.
//
// Sluice's scripts write only by commands that Redis refuses before the first write or not at all: READONLY, OOM, MISCONF and
// NOREPLICAS mean that the script has changed nothing. NOPERM and ERR may come after a write.

export type ErrorCode =
  /** The slot is on another node, permanently or for this key. */
  | "MOVED"
  | "ASK"
  /** While a slot moves, its keys are on two nodes. */
  | "TRYAGAIN"
  /** No node serves the slot; the server is loading its data; it is a replica that has lost its primary. */
  | "CLUSTERDOWN"
  | "LOADING"
  | "MASTERDOWN"
  /** The server is a replica, or a primary that was deposed. */
  | "READONLY"
  | "NOSCRIPT"
  | "OOM"
  | "MISCONF"
  | "NOREPLICAS"
  | "BUSY"
  | "NOAUTH"
  | "NOPERM"
  | "other";

const known: Readonly<Record<string, ErrorCode | undefined>> = {
  MOVED: "MOVED",
  ASK: "ASK",
  TRYAGAIN: "TRYAGAIN",
  CLUSTERDOWN: "CLUSTERDOWN",
  LOADING: "LOADING",
  MASTERDOWN: "MASTERDOWN",
  READONLY: "READONLY",
  NOSCRIPT: "NOSCRIPT",
  OOM: "OOM",
  MISCONF: "MISCONF",
  NOREPLICAS: "NOREPLICAS",
  BUSY: "BUSY",
  NOAUTH: "NOAUTH",
  NOPERM: "NOPERM",
};

/** @param message without the leading "-"; in Redis 6 the code of a failure within a script is inside the message */
export function codeOf(message: string): ErrorCode {
  const first = known[firstWord(message)];
  if (first !== undefined) return first;
  const inner = message.indexOf(": -");
  return (inner < 0 ? undefined : known[firstWord(message.slice(inner + 3))]) ?? "other";
}

/** Returns whether Redis has certainly changed nothing. */
export function changedNothing(code: ErrorCode): boolean {
  return code !== "other" && code !== "NOPERM";
}

/** Returns whether the server would refuse any script now. */
export function decidesNothing(code: ErrorCode): boolean {
  const ofThisScript =
    code === "MOVED" || code === "ASK" || code === "TRYAGAIN" || code === "NOSCRIPT" || code === "NOPERM";
  return !ofThisScript && code !== "other";
}

/** Example: "MOVED 3999 127.0.0.1:6381". @returns host ("" for the server that replied) and port; or undefined */
export function redirection(message: string): readonly [host: string, port: number] | undefined {
  const place = message.split(" ")[2];
  if (place === undefined) return undefined;
  // In an IPv6 address, the last colon precedes the port.
  const parts = place.split(":");
  const portText = parts[parts.length - 1] as string;
  const port = Number(portText);
  if (parts.length < 2 || !(port >= 1 && port <= 65535)) return undefined;
  return [place.slice(0, place.length - portText.length - 1), port];
}

function firstWord(message: string): string {
  const space = message.indexOf(" ");
  return space < 0 ? message : message.slice(0, space);
}
