// The figures of a storm, which an ordinary run of the tests does not print.

/** Prints a line in `npm run storm`. */
export function sayInStorm(line: string): void {
  if (process.env["SLUICE_STORM"] === "1") process.stderr.write(`storm: ${line}\n`);
}
