// Log lines for events that may happen at every request: at most one line of a kind a second in each worker, with the number of events
// it stands for. Requests cause them by the thousand, so the clock is nginx's cached one, which costs nothing; wherever it steps, lines go on
// within a second.

export const pauseSeconds = 1;

/** The state of one kind of log line. */
export interface Quiet {
  /** When the last line was written, by nginx's clock. */
  wroteAtSeconds: number;
  suppressed: number;
}

/** By kind, so that what is frequent does not hide anything else. */
const lines: Record<string, Quiet | undefined> = {};

export function newQuiet(): Quiet {
  return { wroteAtSeconds: 0, suppressed: 0 };
}

/** @param message the same text each time: it is the kind of line */
export function warnSparingly(message: string, detail: string | undefined): void {
  const more = beginLineOf(message);
  if (more !== undefined) ngx.log(ngx.WARN, "sluice: ", message, ": ", detail, more);
}

/** Like `warnSparingly`, at the level that error_log has by default. */
export function logSparingly(message: string, detail: string | undefined): void {
  const more = beginLineOf(message);
  if (more !== undefined) ngx.log(ngx.ERR, "sluice: ", message, ": ", detail, more);
}

/** As `beginLine`, for the lines of this kind. @param kind one of a few */
export function beginLineOf(kind: string): string | undefined {
  lines[kind] ??= newQuiet();
  return beginLine(lines[kind]);
}

/** @returns the text to end the line with; undefined: write no line, the event has been counted */
export function beginLine(quiet: Quiet): string | undefined {
  const now = ngx.now();
  if (math.abs(now - quiet.wroteAtSeconds) < pauseSeconds) {
    quiet.suppressed += 1;
    return undefined;
  }
  const more = quiet.suppressed > 0 ? ` (and ${quiet.suppressed} times since the last line)` : "";
  quiet.wroteAtSeconds = now;
  quiet.suppressed = 0;
  return more;
}
