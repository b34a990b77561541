// The clients as services outside of this repository get them: a package of npm, a module of Go from a Git server, an artifact of Maven.
// Each is made as its README says, from a copy of its sources, and added to an empty project without a network. There, the README's
// program gets its first answer from a real gateway.

import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SluiceClient } from "../../clients/typescript/src/index.ts";
import { callerOf } from "../fixtures/clients/check-api-client.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { makeMemoryDir } from "../fixtures/servers/memory-dir.ts";
import { goWith, project } from "./go-toolchain.ts";

const run = promisify(execFile);
const caller = { app: "default", token: "a-token-of-a-service" };
/** Without what npm tells the programs that it runs: the npm of this test would take this repository for its own project. */
const outside = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
const env = { ...outside, TOKEN: caller.token, SLUICE_TOKEN: caller.token };
const quota = 1_000;

let gateway: LoneGateway;
let sluice: SluiceClient;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      { name: "sms-vendor", key: ["header:x-user"], limits: [{ algorithm: "fixed-window", quota, window: "366d" }] },
    ],
    callers: [callerOf(caller)],
  });
  sluice = new SluiceClient({ url: gateway.privateUrl, token: caller.token, deadlineMs: 60_000, onFailure: "deny" });
});
afterAll(async () => {
  await sluice?.close();
  await gateway?.stop();
});

/** Where the sources of a client are copied to, and where it is added. */
interface Places {
  readonly sources: string;
  readonly service: string;
}

function emptyPlaces(): Places {
  const directory = makeMemoryDir("package");
  const places = { sources: join(directory, "sources"), service: join(directory, "service") };
  mkdirSync(places.sources);
  mkdirSync(places.service);
  return places;
}

/** @returns the blocks of this language in the client's README, in their order */
function blocks(client: string, language: string): string[] {
  const readme = readFileSync(join(project, "clients", client, "README.md"), "utf8");
  return [...readme.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms"))].map(([, text]) => text as string);
}

/** @returns the README's program, which asks the gateway of this test and has much more time than usual: a JVM on a busy machine needs it */
function firstProgram(client: string, language: string, [before, patient]: readonly [string, string]): string {
  const program = blocks(client, language).find((block) => block.includes("http://127.0.0.1:8079")) ?? "";
  expect(program).toContain(before);
  return program.replace("http://127.0.0.1:8079", gateway.privateUrl).replace(before, patient);
}

/** Without an answer, `onFailure` would allow as well. */
async function isCharged(ask: () => Promise<void>): Promise<void> {
  const left = async () => (await sluice.peek("sms-vendor", ["acme"])).remaining ?? 0;
  const before = await left();
  await ask();
  expect(await left()).toBe(before - 1);
}

const licence = readFileSync(join(project, "LICENSE"), "utf8");

it.each(["typescript", "go", "java"])("the client in %s has the licence of the repository", (client) => {
  expect(readFileSync(join(project, "clients", client, "LICENSE"), "utf8")).toBe(licence);
});

describe("the package of npm", () => {
  const offline = { npm_config_offline: "true", npm_config_audit: "false", npm_config_fund: "false" };
  const [pack = "", install = ""] = (blocks("typescript", "")[0] ?? "").trim().split("\n");

  let service: string;
  beforeAll(async () => {
    const places = emptyPlaces();
    const { sources } = places;
    service = places.service;
    for (const name of ["package.json", "tsconfig.base.json"]) cpSync(join(project, name), join(sources, name));
    const own = join(sources, "clients/typescript");
    mkdirSync(own, { recursive: true });
    for (const name of ["package.json", "tsconfig.json", "LICENSE", "README.md", "src"]) {
      cpSync(join(project, "clients/typescript", name), join(own, name), { recursive: true });
    }
    symlinkSync(join(project, "node_modules"), join(sources, "node_modules"));
    await run("sh", ["-ec", pack], { cwd: sources, env: { ...env, ...offline } });
    const command = install.replace("/path/to", sources);
    expect(command).not.toBe(install);
    writeFileSync(join(service, "package.json"), JSON.stringify({ private: true }));
    await run("sh", ["-ec", command], { cwd: service, env: { ...env, ...offline } });
  });

  it("installs alone, and its entries can be imported, with types", async () => {
    expect(readdirSync(join(service, "node_modules")).filter((name) => !name.startsWith("."))).toEqual([
      "sluice-client",
    ]);
    const installed = join(service, "node_modules/sluice-client");
    expect(readdirSync(installed).sort()).toEqual(["LICENSE", "README.md", "dist", "package.json"]);
    const { exports } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
    expect(Object.keys(exports)).toEqual([".", "./express", "./fastify", "./hono"]);
    const dist = readdirSync(join(installed, "dist"), { recursive: true, encoding: "utf8" });
    for (const { types } of Object.values<{ types: string }>(exports)) {
      expect(dist).toContain(types.replace("./dist/", ""));
    }
    const names = Object.keys(exports).map((entry) => `sluice-client${entry.slice(1)}`);
    const imported = names.map((name) => `Object.keys(await import(${JSON.stringify(name)}))`);
    const script = `console.log(JSON.stringify([${imported.join()}]))`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], { cwd: service });
    expect(JSON.parse(stdout)).toEqual([["SluiceClient", "SluiceError"], ["limit"], ["limit", "limitHook"], ["limit"]]);
  });

  it("gets the README's program its answer, which is of the right types", async () => {
    const program = firstProgram("typescript", "ts", ["token:", "deadlineMs: 60_000, token:"]);
    writeFileSync(join(service, "first.mts"), program);
    const strict = ["--strict", "--exactOptionalPropertyTypes", "--module", "nodenext", "--target", "es2023"];
    const types = ["--types", "node", "--typeRoots", join(project, "node_modules/@types")];
    const compiler = join(project, "node_modules/typescript/bin/tsc");
    await run(process.execPath, [compiler, "--noEmit", ...strict, ...types, "first.mts"], { cwd: service });
    await isCharged(async () => {
      const { stdout } = await run(process.execPath, ["first.mts"], { cwd: service, env });
      expect(stdout).toBe("send it\n");
    });
  });
});

it("the module of Go comes from a Git server by `go get`, with its licence, and the README's program gets its answer", async () => {
  const { sources, service } = emptyPlaces();
  const [, fromGit = ""] = blocks("go", "").filter((block) => block.startsWith("go mod edit"));
  const [edit = "", get = ""] = fromGit.trim().split("\n");
  const [, target = "", version = ""] = /=(git\.example\.com\/.*\/clients\/go)@(v[\d.]+)$/.exec(edit) ?? [];
  const git = {
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_CONFIG_NOSYSTEM: "1",
    // In place of the server's URL, Git reads the directory.
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: `url.file://${sources}.insteadOf`,
    GIT_CONFIG_VALUE_0: "https://git.example.com/platform/sluice",
  };
  const author = ["-c", "user.name=A platform team", "-c", "user.email=platform@git.example.com"];
  cpSync(join(project, "clients/go"), join(sources, "clients/go"), { recursive: true });
  for (const args of [
    ["init"],
    ["add", "."],
    [...author, "commit", "-m", "A copy"],
    ["tag", `clients/go/${version}`],
  ]) {
    await run("git", args, { cwd: sources, env: { ...process.env, ...git } });
  }

  const modules = makeMemoryDir("modules");
  const online = {
    ...git,
    GOPROXY: "direct",
    GOMODCACHE: modules,
    GOFLAGS: "-modcacherw",
    TOKEN: caller.token,
  };
  const ended = { code: 0, output: expect.any(String) };
  writeFileSync(join(service, "go.mod"), "module example.test/orders\n\ngo 1.19\n");
  const program = firstProgram("go", "go", ["Token:", "Deadline: 60_000_000_000, Token:"]);
  writeFileSync(join(service, "main.go"), program);
  expect(await goWith(online, service, ...edit.split(" ").slice(1))).toEqual(ended);
  const [setting = "", ...command] = get.split(" ");
  const [name = "", value = ""] = setting.split("=");
  const got = { ...online, [name]: value };
  expect(await goWith(got, service, ...command.slice(1))).toEqual(ended);
  expect(readFileSync(join(modules, `${target}@${version}`, "LICENSE"), "utf8")).toBe(licence);
  expect(await goWith(got, service, "vet", "./...")).toEqual({ code: 0, output: "" });
  await isCharged(async () => {
    const { code, output } = await goWith(got, service, "run", ".");
    expect({ code, output }).toEqual({ code: 0, output: expect.stringMatching(/ true 0s <nil>\n$/) });
  });
});

it("the artifact of Maven is installed with its licence and without tests, and the README's program gets its answer", async () => {
  const { sources, service } = emptyPlaces();
  const local = makeMemoryDir("maven");
  const settings = join(local, "settings.xml");
  // Maven's plugins are those of Debian. Nothing else is asked: -o refuses every protocol but this one.
  const debian = "<mirror><id>debian</id><mirrorOf>*</mirrorOf><url>file:///usr/share/maven-repo</url></mirror>";
  writeFileSync(settings, `<settings><mirrors>${debian}</mirrors></settings>`);
  const maven = (goal: string, cwd: string) => {
    const options = [
      "-B",
      "-q",
      "-o",
      "-Daether.offline.protocols=file",
      "-s",
      settings,
      `-Dmaven.repo.local=${local}`,
    ];
    return run("mvn", [...options, goal], { cwd });
  };
  cpSync(join(project, "clients/java"), sources, { recursive: true });
  await maven("install", sources);
  const jar = join(local, "sluice/sluice-client/0.1.0/sluice-client-0.1.0.jar");
  const { stdout } = await run("jar", ["--list", "--file", jar]);
  const packed = stdout.split("\n");
  expect(packed).toEqual(expect.arrayContaining(["META-INF/LICENSE", "sluice/Client.class"]));
  expect(packed.filter((entry) => /Test|Driver|java$/.test(entry))).toEqual([]);

  const [dependency = ""] = blocks("java", "xml");
  const pom = `<project><modelVersion>4.0.0</modelVersion><groupId>example</groupId><artifactId>orders</artifactId><version>1</version>
    <properties><maven.compiler.release>17</maven.compiler.release><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
    <dependencies>${dependency}</dependencies></project>`;
  writeFileSync(join(service, "pom.xml"), pom);
  mkdirSync(join(service, "src/main/java"), { recursive: true });
  const program = firstProgram("java", "java", [".build()", ".deadline(java.time.Duration.ofMinutes(1)).build()"]);
  writeFileSync(join(service, "src/main/java/First.java"), program);
  await maven("package", service);
  await isCharged(async () => {
    const answer = await run("java", ["-cp", `target/orders-1.jar:${jar}`, "First"], { cwd: service, env });
    expect(answer.stdout).toMatch(/^go on, \d+ left\n$/);
  });
});
