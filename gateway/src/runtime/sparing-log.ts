// Log lines for events that may happen at every request: at most one line a second in each worker, with the number of events it
// stands for. Requests cause them by the thousand, so the clock is nginx's cached one, which costs nothing; wherever it steps, lines go on
// within a second.

export const pauseSeconds = 1;

/** The state of one kind of log line. */
export interface Quiet {
  /** When the last line was written, by nginx's clock. */
  wroteAtSeconds: number;
  suppressed: number;
}

const warnings = newQuiet();
const errors = newQuiet();

export function newQuiet(): Quiet {
  return { wroteAtSeconds: 0, suppressed: 0 };
}

export function warnSparingly(message: string, detail: string | undefined): void {
  const more = beginLine(warnings);
  if (more !== undefined) ngx.log(ngx.WARN, "sluice: ", message, ": ", detail, more);
}

/** Like `warnSparingly`, at the level that error_log has by default. */
export function logSparingly(message: string, detail: string | undefined): void {
  const more = beginLine(errors);
  if (more !== undefined) ngx.log(ngx.ERR, "sluice: ", message, ": ", detail, more);
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
