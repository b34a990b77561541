// Sends the requests of api-requests.ts to a control plane whose gateway enforces what is accepted.

import { adminToken, gatewayToken } from "../fixtures/servers/system.ts";
import { type ApiRequest, anId, apiRequests, apps, operationsOf, ownApp, type Role } from "./api-requests.ts";
import type { ControlPlaneWatch } from "./control-plane-watch.ts";
import type { Answer } from "./http-client.ts";
import { Fault, type Fuzzer, type Surroundings, type Target } from "./target.ts";

/** This route only reads, whatever its method says. */
const readsByPost = "/policies/validate";
const looksAtFleetEvery = 20;
const isDocument = /\/(policies|templates)\/[^/]+$/;

export const rest: Target = { name: "rest", worker: "control plane", start };

async function start(surroundings: Surroundings): Promise<Fuzzer<unknown>> {
  const watch = await surroundings.controlPlane();
  const { body } = await watch.send({ method: "GET", path: "/openapi.json" });
  const session = new Session(watch);
  const fuzzer: Fuzzer<ApiRequest> = {
    inputs: apiRequests(operationsOf(JSON.parse(body))),
    play: (input) => session.play(input),
    show,
    prepare: () => session.prepare(),
    recover: () => watch.untilWell(),
  };
  return fuzzer as Fuzzer<unknown>;
}

function show({ role, method, path, headers, body }: ApiRequest): string {
  return `${role}: ${method} ${path} ${JSON.stringify(headers)}\n${body ?? ""}`;
}

interface Made {
  /** The URL of the collection that it was made in. */
  readonly collection: string;
  readonly id: string;
}

/** What exists at the control plane when a round begins. */
class Session {
  readonly #watch: ControlPlaneWatch;
  #tokens: Partial<Record<Role, string>> = {};
  /** Things made by inputs of this round. */
  readonly #made: Made[] = [];
  /** Tokens that inputs must not delete. */
  readonly #roleTokens: Made[] = [];
  #played = 0;

  constructor(watch: ControlPlaneWatch) {
    this.#watch = watch;
  }

  /** Makes the apps and each role's token, and deletes what the last round made, so that nothing piles up. */
  async prepare(): Promise<void> {
    const gone = [...this.#made.splice(0), ...this.#roleTokens.splice(0)];
    for (const { collection, id } of gone) await this.#asAdmin("DELETE", `${collection}/${encodeURIComponent(id)}`);
    for (const app of apps) await this.#asAdmin("PUT", `/api/v1/apps/${app}`);
    const roles = { owner: "owner", editor: "editor", viewer: "viewer", caller: "caller" } as const;
    const tokens: Partial<Record<Role, string>> = {
      admin: adminToken,
      gateway: gatewayToken,
      stranger: "nobody-knows-me",
    };
    for (const [name, role] of Object.entries(roles)) {
      const { id, token } = await this.#watch.admin("POST", "/tokens?wait=0s", { name, app: ownApp, role });
      tokens[name as Role] = token as string;
      this.#roleTokens.push({ collection: "/api/v1/tokens", id: id as string });
    }
    this.#tokens = tokens;
  }

  async play(input: ApiRequest): Promise<void> {
    const answer = await this.#send(input);
    this.#assess(input, answer);
    await this.#watch.lookAtStalls(async () => {
      // An equal document would change nothing and cost nothing, so the old one is deleted first.
      if (input.method === "PUT" && isDocument.test(input.path))
        await this.#asAdmin("DELETE", input.path.split("?", 1)[0] as string);
      await this.#send(input);
    }, show(input));
    this.#played += 1;
    if (this.#played % looksAtFleetEvery === 0) await this.#watch.lookAtFleet();
  }

  async #send({ role, method, path, headers, body }: ApiRequest): Promise<Answer> {
    const token = this.#tokens[role];
    const collection = path.split(`/${anId}`, 1)[0] as string;
    const id = this.#made.findLast((one) => one.collection === collection)?.id ?? "none";
    const answer = await this.#watch.send({
      method,
      path: path.replace(anId, id),
      headers: { ...headers, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
      body,
    });
    if (method === "POST" && answer.status === 201) {
      const { id: made } = JSON.parse(answer.body);
      if (typeof made === "string") this.#made.push({ collection: path.split("?", 1)[0] as string, id: made });
    }
    return answer;
  }

  #assess({ role, method, path }: ApiRequest, { status, body }: Answer): void {
    if (status === 0 || status >= 300 || method === "OPTIONS") return;
    const reads = method === "GET" || method === "HEAD" || path.includes(readsByPost);
    if (role === "caller" || role === "gateway" || role === "stranger" || role === "nobody") {
      throw new Fault(`a ${role} was answered ${status}`);
    }
    if (role === "viewer" && !reads) throw new Fault(`a viewer changed something: ${status}`);
    const [, app] = /^\/api\/v1\/apps\/([^/?]*)/.exec(path) ?? [];
    if (role !== "admin" && app !== undefined && app !== ownApp) {
      throw new Fault(`the ${role} of ${ownApp} was answered ${status} for another app`);
    }
    const { applied } = (method === "HEAD" || body === "" ? {} : JSON.parse(body)) as { applied?: { refused: number } };
    if ((applied?.refused ?? 0) > 0) throw new Fault(`a gateway refused what was accepted: ${JSON.stringify(applied)}`);
  }

  async #asAdmin(method: string, path: string): Promise<void> {
    await this.#watch.send({ method, path, headers: { authorization: `Bearer ${adminToken}` } });
  }
}
