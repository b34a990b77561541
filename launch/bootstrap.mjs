// Prepares node_modules and then runs `node launch/bootstrap.mjs FILE.ts ARGS…` with the Node of node_modules/.bin. Needs
// only Node 20 or newer, so that a fresh clone can run it.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { fail, runStep, SetupError, say } from "./step.mjs";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const lockFile = join(root, "package-lock.json");
const installedLock = join(root, "node_modules/.package-lock.json");
const stampFile = join(root, "node_modules/.sluice-install");
const node = join(root, "node_modules/.bin/node");

try {
  requireNode20();
  await makeNodeModulesReady();
  const [target, ...args] = process.argv.slice(2);
  if (target !== undefined) await run(resolve(root, target), args);
} catch (error) {
  fail(error);
}

function requireNode20() {
  const major = Number(process.versions.node.split(".")[0]);
  if (major < 20) throw new SetupError(`expected Node 20 or newer, got ${process.version}`);
}

/** Installs the packages of package-lock.json, unless the stamp shows that exactly these are installed here. */
async function makeNodeModulesReady() {
  const stamp = `${createHash("sha256").update(readFileSync(lockFile)).digest("hex")} ${process.platform}-${process.arch}\n`;
  if (existsSync(node) || ownNodeWillDo()) {
    if (existsSync(stampFile) && readFileSync(stampFile, "utf8") === stamp) return;
    if (installedByHand()) return keepStamp(stamp);
  }
  await installDependencies();
  await requireNode24();
  keepStamp(stamp);
}

/** If the stamp cannot be written, as on a full disk, the next start checks again. @param {string} stamp */
function keepStamp(stamp) {
  try {
    writeFileSync(stampFile, stamp);
  } catch (error) {
    say(`warning: cannot write ${stampFile}: ${/** @type {NodeJS.ErrnoException} */ (error).code}`);
  }
}

/**
 * Returns whether `npm install` or `npm ci` has run since package-lock.json last changed: npm writes this file for its own
 * use.
 */
function installedByHand() {
  return existsSync(installedLock) && statSync(installedLock).mtimeMs >= statSync(lockFile).mtimeMs;
}

async function installDependencies() {
  const ci = await npm("installing npm dependencies", ["ci"]);
  if (ci.code === 0) return;
  // Some npm versions refuse a lock file that another version wrote. npm install still installs its pinned versions.
  const outOfStep = ci.output.includes("EUSAGE");
  if (!outOfStep) throw new SetupError(`npm ci failed (exit code ${ci.code}):\n${ci.output.trimEnd()}`);
  say("this npm finds package-lock.json incomplete; trying npm install");
  const install = await npm("installing npm dependencies", ["install", "--no-save"]);
  if (install.code !== 0) {
    throw new SetupError(`npm install failed (exit code ${install.code}):\n${install.output.trimEnd()}`);
  }
}

/** The Node of package-lock.json is one package for each platform, and npm checks its checksum: no script downloads it. */
async function requireNode24() {
  if ((await nodeRuns()) || ownNodeWillDo()) return;
  throw new SetupError(
    `npm installed no Node that runs here (${process.platform}-${process.arch}); install Node 24 or newer, and start again with it`,
  );
}

function ownNodeWillDo() {
  return Number(process.versions.node.split(".")[0]) >= 24 && Boolean(process.features.typescript);
}

function nodeRuns() {
  return new Promise((done) => {
    const child = spawn(node, ["--version"], { stdio: "ignore" });
    child.on("error", () => done(false));
    child.on("exit", (code) => done(code === 0));
  });
}

/** @param {string} title @param {string[]} args */
function npm(title, args) {
  // With a caller's --omit or NODE_ENV=production, npm would leave out the compiler and Node itself.
  const env = { ...process.env, NODE_ENV: "development", npm_config_omit: "" };
  const whole = ["--include=dev", "--include=optional"];
  return runStep(title, "npm", [...args, ...whole, "--no-audit", "--no-fund"], { cwd: root, env });
}

/** @param {string} target @param {string[]} args */
async function run(target, args) {
  stopWhenNpmIsGone();
  if (ownNodeWillDo()) {
    process.argv.splice(1, process.argv.length - 1, target, ...args);
    await import(pathToFileURL(target).href);
    return;
  }
  const child = spawn(node, [target, ...args], { stdio: ["inherit", "inherit", "inherit", "ipc"] });
  // Ctrl-C in a terminal reaches both processes; a signal from npm or a supervisor reaches only this one.
  for (const signal of /** @type {NodeJS.Signals[]} */ (["SIGINT", "SIGTERM", "SIGHUP"])) {
    process.on(signal, () => child.kill(signal));
  }
  child.on("exit", (code, signal) => process.exit(code ?? (signal === "SIGINT" ? 130 : 1)));
}

/**
 * npm passes SIGINT and SIGTERM on. If npm is killed, nothing is passed on: only the change of the parent process shows it.
 */
function stopWhenNpmIsGone() {
  if (process.env.npm_lifecycle_event === undefined) return;
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    // If there is a listener for `disconnect`, no signal is sent: a second signal would mean that the user does not want to
    // wait any longer.
    if (!process.emit("disconnect")) process.kill(process.pid, "SIGTERM");
  }, 500).unref();
}
