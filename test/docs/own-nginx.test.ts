// Who runs Sluice in an nginx of their own copies what docs/operations.md lists: what nginx.conf has and the list lacks is missing
// there, and breaks something that nobody notices at first.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";

const project = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(project, path), "utf8");

/** What stands in nginx.conf for a directive that differs between machines. */
const filledIn: Record<string, string> = {
  SLUICE_MODULES: "load_module x;",
  SLUICE_USER: "user x;",
  SLUICE_RESOLVER: "resolver x;",
  SLUICE_TRUST: "lua_ssl_trusted_certificate x;",
};

/** What every nginx has as its operator wants it. */
const operatorsOwn = [
  "access_log",
  "client_body_temp_path",
  "default_type",
  "error_log",
  "events",
  "fastcgi_temp_path",
  "http",
  "keepalive",
  "listen",
  "pid",
  "proxy_http_version",
  "proxy_pass",
  "proxy_set_header",
  "proxy_temp_path",
  "scgi_temp_path",
  "server",
  "server_tokens",
  "upstream",
  "user",
  "uwsgi_temp_path",
  "worker_connections",
  "worker_processes",
  "location /",
];

/** Every directive by its name, and every location with what it matches. */
function directivesOf(config: string): Set<string> {
  const statements = config
    .replace(/#.*$/gm, "")
    .replace(/(\w+_by_lua_block)\s*\{[^}]*\}/g, "$1;")
    .replace(/"[^"]*"/g, "x")
    .replace(/\$\{(\w+)\}/g, (_, name: string) => filledIn[name] ?? "x")
    .split(/[;{}]/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== "");
  return new Set(
    statements.map((statement) => (statement.startsWith("location") ? statement : statement.replace(/\s.*/s, ""))),
  );
}

const [, section = ""] = /^## In your own nginx$(.*?)^## /ms.exec(read("docs/operations.md")) ?? [];
const listed = [...section.matchAll(/^\| ([^|]*) \|/gm)].flatMap(([, cell]) =>
  [...(cell as string).matchAll(/`([^`]+)`/g)].map(([, name]) => name as string),
);
const config = read("nginx.conf");

it("docs/operations.md lists what to take over into one's own nginx: all of nginx.conf that is not the operator's, no more", () => {
  const ours = [...directivesOf(config)].filter((name) => !operatorsOwn.includes(name));
  expect(ours.length).toBeGreaterThan(15);
  const withoutArguments = listed.map((name) => (name.startsWith("location") ? name : name.replace(/\s.*/s, "")));
  expect([...new Set(withoutArguments)].sort()).toEqual(ours.sort());
});

it("what the list gives with its arguments stands so in nginx.conf", () => {
  const given = listed.filter((name) => name.includes(" "));
  expect(given.filter((name) => !config.includes(name))).toEqual([]);
});

it("the list names the four shared dicts, every variable and every function of Sluice that nginx.conf has", () => {
  const names = [
    ...[...config.matchAll(/lua_shared_dict (\w+)/g)].map(([, name]) => name as string),
    ...[...config.matchAll(/^env (\w+);/gm)].map(([, name]) => name as string),
    ...[...config.matchAll(/sluice\.\w+\(\)/g)].map(([call]) => call),
  ];
  expect(names.length).toBeGreaterThan(15);
  expect([...new Set(names)].filter((name) => !section.includes(`\`${name}\``))).toEqual([]);
});
