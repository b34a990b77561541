// Runs what tests Java alone: its JSON, its options, its calls, callers that go away, its threads, its end, its holds, answers that are no HTTP, and
// the filter for the JDK's HTTP server. The conformance suite tests what the clients of all languages do.

import { execFile } from "node:child_process";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Caller, callerOf } from "../fixtures/clients/check-api-client.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { makeMemoryDir } from "../fixtures/servers/memory-dir.ts";
import { compileJava } from "./java-build.ts";

const client = resolve(import.meta.dirname, "../../clients/java");
const run = promisify(execFile);
const shop: Caller = { app: "default", token: "a-token-of-the-shop" };
const policy = (name: string, limit: object, more = {}) => ({
  name,
  match: { paths: ["/elsewhere"] },
  key: ["header:x-user"],
  limits: [limit],
  ...more,
});

let gateway: LoneGateway;
let classes: string;
beforeAll(async () => {
  [gateway, classes] = await Promise.all([
    LoneGateway.start({
      policies: [
        policy("sms-vendor", { algorithm: "token-bucket", quota: 1, window: "1h", burst: 1 }),
        policy("slots", { algorithm: "concurrency", quota: 1, ttl: "5m" }),
        policy("many", { algorithm: "token-bucket", quota: 100_000, window: "1s" }),
        policy("paced", { algorithm: "token-bucket", quota: 2, window: "1s", burst: 1 }),
        policy("two", { algorithm: "token-bucket", quota: 1, window: "1h", burst: 2 }, { onMissingKey: "deny" }),
        policy("shaped", { algorithm: "leaky-bucket", quota: 5, window: "1s", burst: 5 }),
      ],
      bans: [
        { id: "1", app: "default", policy: "two", key: ["bad"], untilSeconds: Math.floor(Date.now() / 1000) + 3600 },
      ],
      callers: [callerOf(shop)],
    }),
    compileJava("src/main/java", "src/test/java"),
  ]);
});
afterAll(() => gateway?.stop());

it.each([
  ["JSON", "JsonTest", 8],
  ["options", "OptionsTest", 5],
  ["callers that go away", "LeavingTest", 9],
  ["calls", "CallsTest", 5],
  ["threads", "ThreadsTest", 3],
  ["closing", "ClosingTest", 3],
  ["holds", "HoldTest", 2],
  ["answers that are no HTTP", "NoHttpTest", 14],
  ["the filter", "LimitTest", 9],
])("passes its own tests of %s", async (_, main, tests) => {
  const output = await new Promise<string>((done) => {
    const args = ["-XX:+UseSerialGC", "-cp", classes, `sluice.${main}`, gateway.privateUrl, shop.token];
    execFile("java", args, (_error, stdout, stderr) => done(stdout + stderr));
  });
  expect(output).toMatch(new RegExp(`^${tests} passed, 0 failed$`, "m"));
});

it("answers the program of its README, from a jar that is made as the README says", async () => {
  const readme = readFileSync(join(client, "README.md"), "utf8");
  const blocks = (language: string) =>
    [...readme.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms"))].map(([, text]) => text as string);
  const copy = makeMemoryDir("java");
  cpSync(join(client, "src/main"), join(copy, "src/main"), { recursive: true });
  await run("sh", ["-ec", blocks("sh")[0] as string], { cwd: copy });
  const [first, ...others] = blocks("java");
  expect(first).toContain("http://127.0.0.1:8079");
  expect(first).toContain(".build()");
  // On a busy machine, the first call of a JVM may take longer than the usual second.
  const patient = (first as string).replace(".build()", ".deadline(java.time.Duration.ofMinutes(1)).build()");
  writeFileSync(join(copy, "First.java"), patient.replace("http://127.0.0.1:8079", gateway.privateUrl));
  const env = { ...process.env, TOKEN: shop.token };
  const answer = () => run("java", ["-cp", "build/sluice.jar", "First.java"], { cwd: copy, env });
  expect((await answer()).stdout).toBe("go on, 0 left\n");
  expect((await answer()).stdout).toMatch(/^wait 3[56]\d\d s\n$/);
  // The other parts are statements, which compile where their names are known.
  const imports = ["sluice.*", "java.time.*", "java.util.concurrent.*", "com.sun.net.httpserver.*"];
  const parts = `${imports.map((name) => `import ${name};`).join("\n")}
    abstract class Parts {
      abstract void report(CompletableFuture<Void> lost);
      void all(Client client, HttpServer server, HttpHandler handler) throws Exception { ${others.join("\n")} }
    }`;
  writeFileSync(join(copy, "Parts.java"), parts);
  await run("javac", ["-cp", "build/sluice.jar", "-d", join(copy, "build"), "Parts.java"], { cwd: copy });
});
