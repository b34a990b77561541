import { describe, expect, test } from "vitest";
import { policyShape } from "../../../limiter/src/document/policy-shape.ts";
import type { Field, Shape } from "../../../limiter/src/document/shape.ts";

/** Yields every field of the document with its path, such as "limits[].window". */
function* fieldsOf(shape: Shape, path = ""): Generator<[path: string, field: Field]> {
  if (shape.kind === "list") yield* fieldsOf(shape.of, `${path}[]`);
  if (shape.kind === "map") yield* fieldsOf(shape.of, `${path}{}`);
  if (shape.kind === "either") for (const one of shape.of) yield* fieldsOf(one, path);
  if (shape.kind !== "record") return;
  for (const [name, field] of Object.entries(shape.fields)) {
    const inner = path === "" ? name : `${path}.${name}`;
    yield [inner, field];
    yield* fieldsOf(field.shape, inner);
  }
}

const fields = [...fieldsOf(policyShape)];

describe("the policy's shape", () => {
  test("has these fields, and these of them are required", () => {
    expect(fields.map(([path, { required }]) => (required ? `${path}!` : path))).toEqual([
      "name!",
      "description",
      "mode",
      "priority",
      "match",
      "match.hosts",
      "match.paths",
      "match.methods",
      "match.headers",
      "key",
      "secret",
      "onMissingKey",
      "limits",
      "limits[].name",
      "limits[].algorithm!",
      "limits[].quota!",
      "limits[].window",
      "limits[].timezone",
      "limits[].anchor",
      "limits[].burst",
      "limits[].initial",
      "limits[].warmUp",
      "limits[].precision",
      "limits[].maxDelay",
      "limits[].ttl",
      "plans",
      "plans{}[].name",
      "plans{}[].algorithm!",
      "plans{}[].quota!",
      "plans{}[].window",
      "plans{}[].timezone",
      "plans{}[].anchor",
      "plans{}[].burst",
      "plans{}[].initial",
      "plans{}[].warmUp",
      "plans{}[].precision",
      "plans{}[].maxDelay",
      "plans{}[].ttl",
      "planBy",
      "defaultPlan",
      "cost",
      "cost.from!",
      "cost.default",
      "cost.max",
      "scope",
      "consistency",
      "onStoreFailure",
      "maxStoreWait",
      "onLimit",
      "onLimit.action",
      "onLimit.status",
      "onLimit.body",
      "onLimit.headers",
      "onLimit.maxDelay",
      "onLimit.maxWaiting",
      "onLimit.uri",
      "onLimit.location",
      "onLimit.response",
      "onLimit.response.status",
      "onLimit.response.body",
      "onLimit.response.headers",
      "onLimit.header",
      "sharedWith",
      "overrides",
      "overrides[].key!",
      "overrides[].limits",
      "overrides[].limits[].name",
      "overrides[].limits[].algorithm!",
      "overrides[].limits[].quota!",
      "overrides[].limits[].window",
      "overrides[].limits[].timezone",
      "overrides[].limits[].anchor",
      "overrides[].limits[].burst",
      "overrides[].limits[].initial",
      "overrides[].limits[].warmUp",
      "overrides[].limits[].precision",
      "overrides[].limits[].maxDelay",
      "overrides[].limits[].ttl",
      "overrides[].mode",
      "exempt",
      "exempt.cidrs",
      "exempt.keys",
      "schedule",
      "schedule.timezone!",
      "schedule.windows!",
      "schedule.windows[].days",
      "schedule.windows[].from!",
      "schedule.windows[].to!",
    ]);
  });

  test("describes in a sentence what each field is for", () => {
    for (const [path, { description }] of fields)
      expect([path, description]).toEqual([path, expect.stringMatching(/^\S.+\.$/)]);
  });

  test("has these defaults, which apply when a field is absent", () => {
    const defaults = fields
      .filter(([, field]) => field.default !== undefined)
      .map(([path, field]) => [path, field.default]);
    expect(defaults).toEqual([
      ["description", ""],
      ["mode", "enforce"],
      ["priority", 0],
      ["key", []],
      ["onMissingKey", "skip"],
      ["limits[].name", "default"],
      ["plans{}[].name", "default"],
      ["cost", 1],
      ["cost.default", 1],
      ["scope", "node"],
      ["consistency", "exact"],
      ["onStoreFailure", "local"],
      ["onLimit.action", "reject"],
      ["onLimit.status", 429],
      ["onLimit.headers", []],
      ["onLimit.response.status", 200],
      ["onLimit.response.body", ""],
      ["onLimit.response.headers", []],
      ["overrides[].limits[].name", "default"],
    ]);
  });
});
