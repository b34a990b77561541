// Plays random regular expressions on random paths: LuaJIT, for which a path is bytes, must answer what Node answers, for which
// it is UTF-16.

import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { matchesRegex, pathRegex } from "../../limiter/src/match/path-regex.ts";
import { regex, subject } from "../limiter/match/regexes.ts";

const script = `
local cjson = require("cjson")
local regexes = require("test.gateway.product").module("limiter.src.match.path-regex")
for _, case in ipairs(cjson.decode(io.read("*a"))) do
  local asked = regexes.pathRegex(case.expression)
  for _, path in ipairs(case.paths) do
    io.write(regexes.matchesRegex(asked, path) and "1" or "0")
  end
end
`;

beforeAll(requireGatewayBuild);

test("in LuaJIT, random regular expressions match what they match in Node", () => {
  const paths = fc.array(subject, { minLength: 10, maxLength: 10 });
  const cases = fc.sample(fc.record({ expression: regex, paths }), 3_000);
  const output = execFileSync("luajit", ["-e", script], {
    cwd: resolve(import.meta.dirname, "../.."),
    input: JSON.stringify(cases),
    encoding: "utf8",
  });
  const answers = cases.flatMap(({ expression, paths }) => {
    const asked = pathRegex(expression);
    return paths.map((path) => ({ expression, path, matches: matchesRegex(asked, path) }));
  });
  expect(output).toHaveLength(answers.length);
  const differing = answers.filter(({ matches }, i) => (output[i] === "1") !== matches);
  expect(differing.slice(0, 10)).toEqual([]);
});
