// Plays the requests of api-requests.ts as everybody who may try, and holds each answer to openapi.json and to the table of routes.

import { type Asker, askers, type Cell, cellOf } from "../../control-plane/src/plugins/route-table.ts";
import type { DescribedAnswers, Operation } from "../fixtures/clients/described-answers.ts";
import { type Fact, fact } from "../fixtures/measures/fact.ts";
import { adminToken, gatewayToken } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";
import { type ApiRequest, anId, apps, otherApp, ownApp } from "./api-requests.ts";
import type { Answer, Sent } from "./http-client.ts";
import { Fault } from "./target.ts";

/** From so many requests on, everybody must have asked every route. */
const manyRequests = 20_000;
const isApp = /\/apps\/[^/]+$/;
const isDocument = /\/(policies|templates)\/[^/]+$/;

export function showRequest({ asker, method, path, headers, body }: ApiRequest): string {
  return `${asker}: ${method} ${path} ${JSON.stringify(headers)}\n${body ?? ""}`;
}

interface Made {
  /** The URL of the collection that it was made in. */
  readonly collection: string;
  readonly id: string;
}

/** A control plane that answers. */
export interface Asked {
  /** @throws Fault for what must not be answered to anything */
  send(sent: Sent): Promise<Answer>;
  /** As an administrator of all apps, below /api/v1, with JSON in and out. @throws Fault if it is refused */
  admin(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
}

/** What exists at the control plane when a round begins, and what may be answered. */
export class RestSession {
  readonly #asks: Asked;
  readonly #described: DescribedAnswers;
  #tokens: Partial<Record<Asker, string>> = {};
  #expired: string | undefined;
  /** Things made by inputs of this round. */
  readonly #made: Made[] = [];
  /** Tokens that inputs must not delete, and members. */
  readonly #ofAskers: Made[] = [];
  #haveTokensEnded = false;
  #answered = 0;
  /** Who asked which route. */
  readonly #asked = new Set<string>();

  constructor(asks: Asked, described: DescribedAnswers) {
    this.#asks = asks;
    this.#described = described;
  }

  /** Makes the apps and everybody's token, and deletes what the last round made, so that nothing piles up. */
  async prepare(): Promise<void> {
    this.#haveTokensEnded = false;
    const gone = [...this.#made.splice(0), ...this.#ofAskers.splice(0)];
    for (const { collection, id } of gone) await this.#asAdmin("DELETE", `${collection}/${encodeURIComponent(id)}`);
    for (const app of apps) {
      const settings = { bounds: null, ...(app === "default" ? {} : { realm: {} }) };
      await this.#asks.admin("PUT", `/apps/${app}`, settings);
    }
    const tokens: Partial<Record<Asker, string>> = { admin: adminToken, gateway: gatewayToken };
    this.#expired ??= await this.#expiredToken();
    tokens["expired token"] = this.#expired;
    for (const role of ["owner", "editor", "viewer", "caller"] as const) {
      tokens[role] = await this.#tokenOf({ name: role, app: ownApp, role });
    }
    tokens.stranger = await this.#tokenOf({ name: "stranger", app: otherApp, role: "owner" });
    for (const role of ["owner", "editor", "viewer"] as const) {
      tokens[`member: ${role}`] = await this.#tokenOfMember(`member-${role}`, role);
    }
    tokens["disabled member"] = await this.#tokenOfMember("gone", "owner");
    await this.#asks.admin("PATCH", "/members/gone", { disabled: true });
    for (const name of ["ann", "bob"]) await this.#tokenOfMember(name, "viewer");
    this.#tokens = tokens;
  }

  async #tokenOf(body: object): Promise<string> {
    const { id, token } = await this.#asks.admin("POST", "/tokens?wait=0s", body);
    this.#ofAskers.push({ collection: "/api/v1/tokens", id: id as string });
    return token as string;
  }

  async #tokenOfMember(name: string, role: string): Promise<string> {
    await this.#asAdmin("DELETE", `/api/v1/members/${name}`);
    await this.#asks.admin("POST", "/members", { name, roles: { [ownApp]: role } });
    this.#ofAskers.push({ collection: "/api/v1/members", id: name });
    return this.#tokenOf({ name: "own", member: name });
  }

  async #expiredToken(): Promise<string> {
    const body = { name: "expired", app: ownApp, role: "owner", expiresIn: "1s" };
    const { token } = await this.#asks.admin("POST", "/tokens?wait=0s", body);
    const headers = { authorization: `Bearer ${token}` };
    await until("the token has expired", async () => {
      return (await this.#asks.send({ method: "GET", path: "/api/v1/apps", headers })).status === 401;
    });
    return token as string;
  }

  /** @param name of the target */
  facts(name: string): Fact[] {
    const all = this.#described.operations.length * askers.length;
    const seen = `${this.#asked.size} of ${all} in ${this.#answered} requests`;
    const expected = `${all} from ${manyRequests} requests on`;
    const ok = this.#answered < manyRequests || this.#asked.size === all;
    return [fact(`${name}: routes × who asks, with each answer as openapi.json says`, expected, seen, ok)];
  }

  /** @throws Fault if the answer is not as openapi.json and the table of routes say */
  async play(input: ApiRequest): Promise<void> {
    this.#assess(input, await this.#send(input));
  }

  /** Sends an input once more, however it is answered. */
  async again(input: ApiRequest): Promise<void> {
    // An equal document would change nothing and cost nothing, so the old one is deleted first.
    if (input.method === "PUT" && isDocument.test(input.path))
      await this.#asAdmin("DELETE", input.path.split("?", 1)[0] as string);
    await this.#send(input);
  }

  /** Called after each input. */
  async restore(): Promise<void> {
    if (this.#haveTokensEnded) await this.prepare();
  }

  async #send({ asker, method, path, headers, body }: ApiRequest): Promise<Answer> {
    const token = this.#tokens[asker];
    const collection = path.split(`/${anId}`, 1)[0] as string;
    const id = this.#made.findLast((one) => one.collection === collection)?.id ?? "none";
    const answer = await this.#asks.send({
      method,
      path: path.replace(anId, id),
      headers: { ...headers, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
      body,
    });
    // The tokens of an app that is deleted end with it.
    if (method === "DELETE" && isApp.test(path) && answer.status === 200) this.#haveTokensEnded = true;
    if (method === "POST" && answer.status === 201) {
      const { id: made, name } = JSON.parse(answer.body);
      const key = path.startsWith("/api/v1/members") ? name : made;
      if (typeof key === "string") this.#made.push({ collection: path.split("?", 1)[0] as string, id: key });
    }
    return answer;
  }

  #assess({ asker, method, path }: ApiRequest, { status, headers, body }: Answer): void {
    if (status === 0) return;
    this.#answered += 1;
    const fault = this.#described.faultOf(method, path, { status, type: headers["content-type"] as string, body });
    if (fault !== undefined) throw new Fault(fault);
    const operation = this.#described.operationOf(method, path);
    if (operation === undefined) {
      if (status < 300) throw new Fault(`answered ${status}, and no route has this URL`);
      return;
    }
    if (operation.method === method) this.#asked.add(`${operation.method} ${operation.path} ${asker}`);
    const cell = this.#cellOf(operation, asker, path);
    const isOfNoRoute = status === 400 || (status === 404 && !body.includes("-not-found")) || status === 405;
    if ((cell === 401 || cell === 403) && status !== cell && !isOfNoRoute) {
      throw new Fault(`a request of "${asker}" was answered ${status}; expected ${cell}`);
    }
    if (status >= 300 || method === "HEAD" || body === "" || !String(headers["content-type"]).includes("json")) return;
    const { applied } = JSON.parse(body) as { applied?: { refused: number } };
    if ((applied?.refused ?? 0) > 0) throw new Fault(`a gateway refused what was accepted: ${JSON.stringify(applied)}`);
  }

  /** @returns what the table of routes says, for the app that the URL names */
  #cellOf({ row }: Operation, asker: Asker, path: string): Cell {
    const [, named] = /^\/api\/v1\/apps\/([^/?]+)/.exec(path) ?? [];
    const ownOf = asker === "stranger" ? otherApp : ownApp;
    // A stranger is an owner elsewhere, and a body may name that app.
    if (named === undefined || decodedOrNot(named) === ownOf)
      return cellOf(row, asker === "stranger" ? "owner" : asker);
    const cell = cellOf(row, asker);
    return asker === "admin" || cell === 401 ? cell : 403;
  }

  async #asAdmin(method: string, path: string): Promise<void> {
    await this.#asks.send({ method, path, headers: { authorization: `Bearer ${adminToken}` } });
  }
}

function decodedOrNot(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
