// Operators who run Sluice in their own nginx copy what docs/install.md shows and lists: what nginx.conf has and the page
// lacks is missing there, and breaks something that nobody notices at first.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const project = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(project, path), "utf8");

/** Placeholders in nginx.conf for directives that differ between machines, with an example of each. */
const filledIn: Record<string, string> = {
  SLUICE_MODULES: "load_module x;",
  SLUICE_CHECK_LISTEN: "listen x;",
  SLUICE_USER: "user x;",
  SLUICE_RESOLVER: "resolver x;",
  SLUICE_TRUST: "lua_ssl_trusted_certificate x;",
};

/** Directives that every nginx has as its operator wants them. */
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
  "map",
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
  "location /api/",
];

/** They change what other Lua does, so they are only where all Lua is Sluice's. */
const ofAllLua = ["lua_socket_log_errors", "lua_ssl_verify_depth"];

/** @returns every directive by its name, and every location with what it matches */
function directivesOf(config: string): Set<string> {
  const statements = config
    .replace(/#.*$/gm, "")
    .replace(/(\w+_by_lua_block)\s*\{.*?^\s*\}/gms, "$1;")
    .replace(/\bmap [^{]*\{[^}]*\}/g, "map;")
    .replace(/"[^"]*"/g, "x")
    .replace(/\$\{(\w+)\}/g, (_, name: string) => filledIn[name] ?? "x")
    .split(/[;{}]/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== "");
  return new Set(
    statements.map((statement) => (statement.startsWith("location") ? statement : statement.replace(/\s.*/s, ""))),
  );
}

const page = read("docs/install.md");
const [, section = ""] = /^## What each directive is for$(.*?)^## /ms.exec(page) ?? [];
const listed = [...section.matchAll(/^\| ([^|]*) \|/gm)].flatMap(([, cell]) =>
  [...(cell as string).matchAll(/`([^`]+)`/g)].map(([, name]) => name as string),
);
const config = read("nginx.conf");
const ours = (text: string) => [...directivesOf(text)].filter((name) => !operatorsOwn.includes(name)).sort();

it("docs/install.md lists what to copy into one's own nginx: all of nginx.conf that is not the operator's, and no more", () => {
  expect(ours(config).length).toBeGreaterThan(15);
  const withoutArguments = listed.map((name) => (name.startsWith("location") ? name : name.replace(/\s.*/s, "")));
  expect([...new Set(withoutArguments)].sort()).toEqual(ours(config));
});

it("what the list gives with arguments is in nginx.conf with these arguments", () => {
  const given = listed.filter((name) => name.includes(" "));
  expect(given.filter((name) => !config.includes(name))).toEqual([]);
});

it("the page names the five shared dicts, every variable and every function of Sluice that nginx.conf has", () => {
  const names = [
    ...[...config.matchAll(/lua_shared_dict (\w+)/g)].map(([, name]) => name as string),
    ...[...config.matchAll(/^env (\w+);/gm)].map(([, name]) => name as string),
    ...[...config.matchAll(/sluice\.\w+\(\)/g)].map(([call]) => call),
  ];
  expect(names.length).toBeGreaterThan(15);
  expect([...new Set(names)].filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
});

describe("what the page shows", () => {
  const blocks = (language: string) =>
    [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(([, block]) => block as string);
  const added = (diff: string) =>
    diff
      .split("\n")
      .filter((line) => /^\+(?!\+\+)/.test(line))
      .map((line) => line.slice(1))
      .join("\n");
  const [sluice = "", proxied = ""] = blocks("nginx");
  const [debian = "", site = "", openresty = ""] = blocks("diff").map(added);
  const unspaced = (text: string) => text.replace(/#.*$/gm, "").replace(/\s+/g, " ");

  it("has every directive of nginx.conf that is not the operator's, except the modules, which packages load, and what changes other Lua", () => {
    const expected = ours(config).filter((name) => name !== "load_module" && !ofAllLua.includes(name));
    expect(ours([sluice, debian, site, proxied].join("\n"))).toEqual(expected);
    expect(unspaced(openresty).trim()).toBe(unspaced(`${debian} include sluice.conf; ${site}`).trim());
  });

  it("has diffs that patch(1) accepts: each hunk says how many lines it has, and where they are afterwards", () => {
    for (const diff of blocks("diff")) {
      const hunks = [...diff.matchAll(/^@@ -(\d+),(\d+) \+(\d+),(\d+) @@\n((?:[ +-].*\n)+)/gm)];
      expect(hunks.length).toBe(diff.match(/^@@/gm)?.length);
      let shift = 0;
      for (const [hunk, start, before, startAfter, after, body = ""] of hunks) {
        const linesWith = (signs: string) => body.split("\n").filter(([sign]) => sign && signs.includes(sign)).length;
        const counted = [linesWith(" -"), linesWith(" +"), Number(start) + shift];
        expect([before, after, startAfter].map(Number), hunk).toEqual(counted);
        shift += Number(after) - Number(before);
      }
    }
  });

  it.each(["lua_shared_dict", "env", "resolver_timeout", "proxy_hide_header"])(
    "has %s with the arguments of nginx.conf",
    (name) => {
      const linesOf = (text: string) =>
        [...text.matchAll(new RegExp(`^\\s*(${name} [^;]*);`, "gm"))].map(([, line]) => line);
      expect(linesOf(config).length).toBeGreaterThan(0);
      expect(linesOf([sluice, debian, proxied].join("\n"))).toEqual(linesOf(config));
    },
  );

  it("has the private listener's locations word for word", () => {
    const [, locations = ""] = /(location = \/sluice\/metrics \{.*?)\}\s*# <check>/s.exec(config) ?? [];
    expect(locations).toContain("sluice.api()");
    expect(unspaced(sluice)).toContain(unspaced(locations).trim());
  });
});
