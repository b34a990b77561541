import { expect, test } from "vitest";
import { appExemptions, compileExempt, exemptsKey } from "../../../limiter/src/compiled/exemptions.ts";
import { validatePolicy } from "../../../limiter/src/document/validate.ts";
import { smallestDocument } from "../policies.ts";

test("a key that has a part twice is looked up once for an exemption of its app", () => {
  const { policy } = validatePolicy({ ...smallestDocument, key: ["header:x-user", "header:X-User"] });
  const keys = [{ part: "header:x-user", pattern: "probe-*" }];
  const ofApp = appExemptions({ keys }, { lists: {}, app: "shop" });
  const exempt = compileExempt(policy?.key ?? [], undefined, ofApp === undefined ? [] : [ofApp], undefined);
  if (exempt === undefined) throw new Error("expected exemptions");
  expect(exempt.patterns).toHaveLength(1);
  expect([exemptsKey(exempt, ["probe-1", "probe-1"]), exemptsKey(exempt, ["ann", "ann"])]).toEqual([true, false]);
});
