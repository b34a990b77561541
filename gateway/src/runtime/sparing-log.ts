// A line for what may happen at every request: at most one a second and worker, with how many it stands for.

const pauseSeconds = 1;

/** What has become of the lines of one kind. */
export interface Quiet {
  silentUntilSeconds: number;
  suppressed: number;
}

const warnings: Quiet = { silentUntilSeconds: 0, suppressed: 0 };
const defects: Quiet = { silentUntilSeconds: 0, suppressed: 0 };

export function warnSparingly(message: string, detail: string | undefined): void {
  const more = beginLine(warnings);
  if (more !== undefined) ngx.log(ngx.WARN, "sluice: ", message, ": ", detail, more);
}

/** The same of a defect of ours, at the level that error_log has by default. */
export function logSparingly(message: string, detail: string | undefined): void {
  const more = beginLine(defects);
  if (more !== undefined) ngx.log(ngx.ERR, "sluice: ", message, ": ", detail, more);
}

/** @returns what to end the line with; undefined: none is to be written, this one is counted */
export function beginLine(quiet: Quiet): string | undefined {
  const now = ngx.now();
  if (now < quiet.silentUntilSeconds) {
    quiet.suppressed += 1;
    return undefined;
  }
  const more = quiet.suppressed > 0 ? ` (and ${quiet.suppressed} times since the last line)` : "";
  quiet.silentUntilSeconds = now + pauseSeconds;
  quiet.suppressed = 0;
  return more;
}
