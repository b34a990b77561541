// The table of docs/security.md: who may use each route, and what each leaves behind.

import { type Asker, askers, type Cell, cellOf, type RouteRow } from "../../control-plane/src/plugins/route-table.ts";

/** Those who are always answered alike have one column. */
const columns: Readonly<Record<string, readonly Asker[]>> = {
  admin: ["admin"],
  owner: ["owner"],
  editor: ["editor"],
  viewer: ["viewer"],
  "member: owner": ["member: owner"],
  "member: editor": ["member: editor"],
  "member: viewer": ["member: viewer"],
  caller: ["caller"],
  "owner of another app": ["stranger"],
  gateway: ["gateway"],
  nobody: ["nobody", "expired token", "disabled member"],
};

const order = ["GET", "PUT", "POST", "PATCH", "DELETE"];

export function rightsTable(routes: readonly RouteRow[]): string {
  const named = new Set(Object.values(columns).flat());
  const missing = askers.filter((asker) => !named.has(asker));
  if (missing.length > 0) throw new Error(`rights-table.ts: expected a column for ${missing.join(", ")}`);
  const sorted = [...routes].sort(
    (a, b) => (a.url < b.url ? -1 : a.url > b.url ? 1 : 0) || order.indexOf(a.method) - order.indexOf(b.method),
  );
  const names = Object.keys(columns);
  return [
    `| route | ${names.join(" | ")} | leaves |`,
    `| --- |${names.map(() => " :-: |").join("")} --- |`,
    ...sorted.map((row) => {
      const cells = names.map((name) => shown(row, columns[name] as readonly Asker[]));
      return `| \`${row.method} ${shortened(row.url)}\` | ${cells.join(" | ")} | ${leaves[row.records]} |`;
    }),
  ].join("\n");
}

const leaves: Readonly<Record<RouteRow["records"], string>> = {
  nothing: "",
  revision: "a revision",
  audit: "an entry",
};

function shown(row: RouteRow, alike: readonly Asker[]): Cell {
  const cells = alike.map((asker) => cellOf(row, asker));
  const [cell] = cells;
  if (cell !== undefined && cells.every((one) => one === cell)) return cell;
  throw new Error(`rights-table.ts: expected one answer of ${row.url} to ${alike.join(", ")}, got ${cells.join(", ")}`);
}

function shortened(url: string): string {
  return url.replace("/api/v1", "").replaceAll(/:(\w+)/g, "{$1}");
}
