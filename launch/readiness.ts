// Waits until a part answers. A part that ends instead is handled by Processes, which then ends this launcher.
import { setTimeout as sleep } from "node:timers/promises";
import type { Settings } from "./settings.ts";
import { SetupError, say } from "./step.mjs";

const patienceMs = 30_000;
const connectPatienceMs = 5000;

export const controlUrlHere = (settings: Settings) => local("http", settings.controlHost, settings.controlPort);
export const gatewayUrlHere = (settings: Settings) => local("http", settings.gatewayHost, settings.gatewayPort);
export const privateUrlHere = (settings: Settings) =>
  local("http", settings.gatewayPrivateHost, settings.gatewayPrivatePort);
/** Where the check API is answered. */
export const checkUrlsHere = ({ checkTls, checkSocket, ...settings }: Settings): string[] => [
  local("http", settings.gatewayPrivateHost, settings.gatewayPrivatePort),
  ...(checkTls === undefined ? [] : [local("https", checkTls.host, checkTls.port)]),
  ...(checkSocket === undefined ? [] : [`unix:${checkSocket}`]),
];
export const upstreamUrlHere = (settings: Settings) => local("http", settings.upstreamHost, settings.upstreamPort);

/**
 * @param isUp accepts other answers than 200
 * @throws SetupError when there is no accepted answer within 30 seconds
 */
export async function untilAnswers(name: string, url: string, isUp = (_: Answer) => false): Promise<void> {
  const giveUpAt = Date.now() + patienceMs;
  for (;;) {
    const answer = await ask(url);
    if (answer.status === 200 || isUp(answer)) return;
    if (Date.now() > giveUpAt) {
      throw new SetupError(`${name}: expected 200 from ${url} within ${patienceMs / 1000} s, got ${answer.text}`);
    }
    await sleep(50);
  }
}

/**
 * Waits until the gateway serves. With SLUICE_REQUIRE_SNAPSHOT, a gateway without policies runs but reports that it is
 * unhealthy, which is accepted.
 */
export async function untilServes(settings: Settings): Promise<void> {
  const url = `${privateUrlHere(settings)}/sluice/healthz`;
  await untilAnswers("gateway", url, ({ text }) => text.includes("no policies yet"));
}

/**
 * Waits until the gateway is connected. Without its control plane a gateway limits by its last good snapshot, so a missing
 * connection only causes a warning.
 */
export async function untilConnected(settings: Settings): Promise<void> {
  const giveUpAt = Date.now() + connectPatienceMs;
  const url = `${privateUrlHere(settings)}/sluice/healthz`;
  while (Date.now() < giveUpAt) {
    const answer = await ask(url);
    if (/"connected":\s*true/.test(answer.text)) return;
    await sleep(50);
  }
  say(`warning: the gateway is not connected to the control plane at ${settings.controlUrl} yet; it goes on trying`);
}

/** The status, or 0 when there was no answer; and the body, or the reason. */
interface Answer {
  readonly status: number;
  readonly text: string;
}

async function ask(url: string): Promise<Answer> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(1000) });
    const body = await response.text();
    return { status: response.status, text: response.ok ? body : `${response.status} ${body.slice(0, 300)}` };
  } catch (error) {
    const cause = (error as Error).cause as NodeJS.ErrnoException | undefined;
    return { status: 0, text: cause?.code ?? (error as Error).message };
  }
}

/** Returns a URL that reaches a listener from this machine: for one that listens on all addresses, this is loopback. */
function local(scheme: string, host: string, port: number): string {
  const address = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "[::1]" : host.includes(":") ? `[${host}]` : host;
  return `${scheme}://${address}:${port}`;
}
