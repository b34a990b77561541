// Prints the results as tables in Markdown, which are also easy to read on a terminal, and as JSON.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Figures } from "./figures.ts";
import type { Results } from "./results.ts";

const absent = "–";

export function tableOf({ machine, options, variants, targets, ...rest }: Results): string {
  const lines = [
    `${machine.cpu}, ${machine.cores} cores, load ${machine.loadBefore.toFixed(1)} before; nginx ${machine.nginx}, ` +
      `${machine.luajit}, Redis ${machine.redis}, wrk ${machine.wrk}`,
    `median of ${options.rounds} rounds of ${options.seconds} s, ${options.connections} connections`,
    "",
  ];
  const figures = table(
    [
      "variant",
      "req/s",
      "p50 ms",
      "p99 ms",
      "nginx µs",
      "± %",
      "cores",
      "Redis µs",
      "calls/req",
      "× native",
      "× redis-each req/s",
      "CPU",
    ],
    variants.map((row) => [
      row.name,
      row.requestsPerSecond.toFixed(0),
      row.p50Ms.toFixed(2),
      row.p99Ms.toFixed(2),
      row.nginxCpuUs.toFixed(2),
      (row.nginxCpuSpread * 50).toFixed(0),
      row.nginxCores.toFixed(2),
      usesRedis(row) ? row.redisCpuUs.toFixed(2) : absent,
      usesRedis(row) ? row.redisCallsPerRequest.toFixed(3) : absent,
      row.toNative?.toFixed(2) ?? absent,
      row.toRedisEach?.requestsPerSecond.toFixed(2) ?? absent,
      row.toRedisEach?.cpu.toFixed(2) ?? absent,
    ]),
  );
  lines.push(...figures, "");
  lines.push(
    ...table(
      ["target", "what", "measured", "wanted", ""],
      targets.map(({ target, what, value, wanted, met }) => [
        target,
        what,
        value === undefined ? absent : value.toFixed(2),
        wanted,
        met === undefined ? "not measured" : met ? "met" : "not yet",
      ]),
    ),
  );
  lines.push("");
  if (rest.degradedDecisions > 0)
    lines.push(`${rest.degradedDecisions} cluster decisions were made without Redis: it was late.`);
  if (rest.stolenShare > 0.01)
    lines.push(`The host took ${(rest.stolenShare * 100).toFixed(1)}% of the machine's time for others.`);
  return lines.join("\n");
}

export function writeJson(file: string, results: object): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(results, undefined, 2)}\n`);
}

function usesRedis(row: Figures): boolean {
  return row.redisCallsPerSecond > 0 || row.redisCpuUs > 0.5;
}

/** Aligns the first column to the left and figures to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const isFigure = head.map((_, column) => column > 0 && rows.every((row) => /^[\d.–]*$/.test(row[column] ?? "")));
  const widths = head.map((title, column) => Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => (isFigure[i] ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0))).join(" | ")} |`;
  const rule = `| ${widths.map((width, i) => (isFigure[i] ? `${"-".repeat(width - 1)}:` : "-".repeat(width))).join(" | ")} |`;
  return [line(head), rule, ...rows.map(line)];
}
