// An operator stops Sluice by Ctrl-C, `docker stop` or a supervisor while clients are being served.

import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, request, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import { type Answer, ask } from "../fixtures/clients/requests.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { clientId, clientSecret, startOpenIdProvider } from "../fixtures/servers/openid-provider.ts";
import { Program } from "../fixtures/servers/program.ts";
import { adminToken, childrenOf, gatewayToken } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

const project = resolve(import.meta.dirname, "../..");
const directory = mkdtempSync(join(tmpdir(), "sluice-stopping-"));
/** Longer than any test takes. */
const timeout = 60_000;

/** A service that sends the first part of each answer at once, and the second when a test says so; at `/at-once` both. */
let slow: Server;
const held = new Map<string, ServerResponse>();
beforeAll(async () => {
  slow = createServer((incoming, response) => {
    response.write("part 1\n");
    if (incoming.url === "/at-once") response.end("part 2\n");
    else held.set(incoming.url as string, response);
  }).listen(0, "127.0.0.1");
  await once(slow, "listening");
});
afterAll(() => {
  slow.closeAllConnections();
  slow.close();
  rmSync(directory, { recursive: true, force: true });
});

const untilHeld = (path: string) => until("the service has the request", () => held.has(path));
const whole = "200 part 1\npart 2\n";

interface Started {
  readonly program: Program;
  readonly gatewayUrl: string;
  readonly controlUrl: string;
}

/** @param args what is started: by default what `npm start` starts, the bootstrap, which then runs launch/start.ts */
async function start(
  env: NodeJS.ProcessEnv = {},
  args = [join(project, "launch/bootstrap.mjs"), "launch/start.ts"],
): Promise<Started> {
  const [gateway, gatewayPrivate, control, upstream] = (await freePorts(4)) as [number, number, number, number];
  const isWhole = args.length > 1;
  const program = await Program.start({
    command: process.execPath,
    args,
    env: {
      SLUICE_DATA_DIR: mkdtempSync(join(directory, "data-")),
      SLUICE_GATEWAY_PORT: `${gateway}`,
      SLUICE_GATEWAY_PRIVATE_PORT: `${gatewayPrivate}`,
      SLUICE_CONTROL_PORT: `${control}`,
      SLUICE_UPSTREAM_PORT: `${upstream}`,
      SLUICE_ADMIN_TOKEN: adminToken,
      SLUICE_GATEWAY_TOKEN: gatewayToken,
      SLUICE_UPSTREAM: `http://127.0.0.1:${(slow.address() as { port: number }).port}`,
      SLUICE_WORKERS: "1",
      ...env,
    },
    readyWhen: isWhole
      ? /^sluice: ready$/m
      : () =>
          ask(`http://127.0.0.1:${gatewayPrivate}/sluice/healthz`).then(
            () => true,
            () => false,
          ),
  });
  return { program, gatewayUrl: `http://127.0.0.1:${gateway}`, controlUrl: `http://127.0.0.1:${control}` };
}

async function endOf({ child }: Program): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return child.exitCode;
}

/** @returns the process that runs this script beneath the launcher */
function pidOf(script: string, launcher: number): number {
  const beneath = (pid: number): number[] => childrenOf(pid).flatMap((child) => [child, ...beneath(child)]);
  const found = beneath(launcher).find((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(script));
  if (found === undefined) throw new Error(`expected a process that runs ${script}, got none`);
  return found;
}

const outcome = (answer: Promise<Answer>) =>
  answer.then(
    ({ status, body }) => `${status} ${body}`,
    (error: NodeJS.ErrnoException) => error.code ?? error.message,
  );

const untilRefused = (url: string) =>
  // A connection that comes while the socket closes is reset.
  until("nobody listens", async () => (await outcome(ask(url))) === "ECONNREFUSED");

// Each has its own system, and mostly waits.
describe.concurrent("SIGTERM", { timeout }, () => {
  it("lets a response end whole, while it admits no new request and the rest still runs", async ({ expect }) => {
    const { program, gatewayUrl, controlUrl } = await start();
    try {
      const answer = outcome(ask(`${gatewayUrl}/whole`));
      await untilHeld("/whole");
      program.child.kill("SIGTERM");
      await untilRefused(`${gatewayUrl}/at-once`);
      // By now, a part that did not wait for the gateway would have ended. A busy machine only ends it later.
      await sleep(500);
      expect((await ask(`${controlUrl}/healthz`)).status).toBe(200);
      held.get("/whole")?.end("part 2\n");
      expect(await answer).toBe(whole);
      expect(await endOf(program), program.output).toBe(0);
      await expect(ask(`${controlUrl}/healthz`)).rejects.toThrow("ECONNREFUSED");
    } finally {
      await program.stop("SIGKILL");
    }
  });

  it("lets a response end whole too if only the gateway gets it, as from docker stop", async ({ expect }) => {
    const { program, gatewayUrl } = await start({}, [join(project, "launch/gateway.ts")]);
    try {
      const answer = outcome(ask(`${gatewayUrl}/docker`));
      await untilHeld("/docker");
      program.child.kill("SIGTERM");
      await untilRefused(`${gatewayUrl}/at-once`);
      // By now, a gateway that did not wait would have ended.
      await sleep(500);
      held.get("/docker")?.end("part 2\n");
      expect(await answer).toBe(whole);
      expect(await endOf(program), program.output).toBe(0);
    } finally {
      await program.stop("SIGKILL");
    }
  });

  it("waits for no request longer than SLUICE_DRAIN_SECONDS, and says what it cut", async ({ expect }) => {
    const { program, gatewayUrl } = await start({ SLUICE_DRAIN_SECONDS: "1" });
    try {
      const answer = outcome(ask(`${gatewayUrl}/cut`));
      await untilHeld("/cut");
      const startedAtMs = performance.now();
      program.child.kill("SIGTERM");
      expect([await endOf(program), await answer]).toEqual([0, "ECONNRESET"]);
      expect(performance.now() - startedAtMs).toBeGreaterThan(900);
      expect(program.output).toContain("gateway was not done with its requests after 1 s; they are cut");
    } finally {
      await program.stop("SIGKILL");
    }
  });
});

describe.concurrent("Ctrl-C", { timeout }, () => {
  it("ends everything at once if pressed twice", async ({ expect }) => {
    const { program, gatewayUrl, controlUrl } = await start();
    try {
      const answer = outcome(ask(`${gatewayUrl}/twice`));
      await untilHeld("/twice");
      program.child.kill("SIGINT");
      await untilRefused(`${gatewayUrl}/at-once`);
      // Two signals that come together count once, and these are two.
      await sleep(800);
      expect(program.child.exitCode).toBe(null);
      program.child.kill("SIGINT");
      expect(await endOf(program)).toBe(130);
      expect(await answer).toBe("ECONNRESET");
      for (const url of [gatewayUrl, controlUrl]) await untilRefused(`${url}/at-once`);
    } finally {
      await program.stop("SIGKILL");
    }
  });

  it("counts once if it comes from the terminal and from npm at the same time: a request whose body is on its way keeps its upstream", async ({
    expect,
  }) => {
    const { program, gatewayUrl } = await start({ SLUICE_UPSTREAM: "" });
    try {
      const answer = new Promise<string>((done) => {
        const outgoing = request(
          `${gatewayUrl}/late`,
          { method: "POST", headers: { "content-length": "2", expect: "100-continue" } },
          (response) => {
            let body = "";
            response.on("data", (data) => (body += data)).on("end", () => done(`${response.statusCode} ${body}`));
          },
        );
        outgoing.on("error", (error) => done(error.message));
        // nginx reads the body from then on.
        outgoing.once("continue", () => {
          outgoing.write("a");
          program.child.kill("SIGINT");
          setTimeout(() => program.child.kill("SIGINT"), 30);
          void untilRefused(`${gatewayUrl}/at-once`).then(
            () => outgoing.end("b"),
            (error) => done(String(error)),
          );
        });
        outgoing.flushHeaders();
      });
      expect(await answer).toMatch(/^200 .*"path":"\/late"/);
      expect(await endOf(program), program.output).toBe(0);
    } finally {
      await program.stop("SIGKILL");
    }
  });
});

/** Fails to sign in by OpenID Connect. The description is in the log. */
async function failSignIn(controlUrl: string, issuer: string, description: string): Promise<void> {
  const begun = await fetch(`${controlUrl}/api/v1/session/oidc`, { redirect: "manual" });
  const cookie = begun.headers
    .getSetCookie()
    .map((one) => one.split(";", 1)[0])
    .join("; ");
  const state = new URL(begun.headers.get("location") as string).searchParams.get("state") as string;
  const query = new URLSearchParams({ state, iss: issuer, error: "access_denied", error_description: description });
  await fetch(`${controlUrl}/api/v1/session/oidc/callback?${query}`, { headers: { cookie } });
}

it("a control plane that is killed is started again under npm start, and the gateway serves meanwhile, whatever strangers have put in the log and whoever has its port meanwhile", {
  timeout,
}, async ({ expect }) => {
  // The provider is never asked to send a browser back.
  const { issuer } = await startOpenIdProvider({ redirectUri: "http://127.0.0.1/", accounts: {} });
  const { program, gatewayUrl, controlUrl } = await start({
    SLUICE_PUBLIC_URL: "http://127.0.0.1",
    SLUICE_OIDC_ISSUER: issuer,
    SLUICE_OIDC_CLIENT_ID: clientId,
    SLUICE_OIDC_CLIENT_SECRET: clientSecret,
    SLUICE_OIDC_GROUPS: "platform=admin",
  });
  try {
    await failSignIn(controlUrl, issuer, "sluice: SLUICE_CONTROL_PORT: expected a call to +1 555 0100");
    await until("the log has the sign-in", () => program.output.includes("555 0100"));
    expect(program.output).toMatch(/^\{"level".*sluice: SLUICE_CONTROL_PORT: expected a call to \+1 555 0100.*\}$/m);
    process.kill(pidOf("control-plane/src/main.ts", program.pid), "SIGKILL");
    await untilRefused(controlUrl);
    // A setting that it accepted once is not wrong later: somebody else has its port for a moment.
    const other = createServer().listen(Number(new URL(controlUrl).port), "127.0.0.1");
    await until("the control plane finds its port taken", () =>
      /SLUICE_CONTROL_PORT: expected a free port/.test(program.output),
    );
    await until("it is started again", () => /is started again in 2 s/.test(program.output));
    for (let i = 0; i < 5; i++) expect((await ask(`${gatewayUrl}/at-once`)).body).toBe("part 1\npart 2\n");
    other.close();
    await until("the control plane is back", async () =>
      (await outcome(ask(`${controlUrl}/readyz`))).startsWith("200 "),
    );
    expect(program.output).toMatch(/control plane ended unexpectedly \(killed by SIGKILL\)/);
    expect(program.output).toMatch(/control plane is started again in 1 s; the others go on without it/);
    program.child.kill("SIGTERM");
    expect(await endOf(program), program.output).toBe(0);
  } finally {
    await program.stop("SIGKILL");
  }
});
