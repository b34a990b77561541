// Sends the requests of api-requests.ts to a control plane without gateways, which is much faster: nothing waits for one.

import { DescribedAnswers } from "../fixtures/clients/described-answers.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";
import { type ApiRequest, apiRequests } from "./api-requests.ts";
import { Client } from "./http-client.ts";
import { type Asked, RestSession, showRequest } from "./rest-session.ts";
import { Fault, type Fuzzer, type Surroundings, type Target } from "./target.ts";

const name = "rest-alone";

export const restAlone: Target = { name, worker: "control plane alone", start };

async function start({ stack }: Surroundings): Promise<Fuzzer<unknown>> {
  const system = await System.start({ gateways: 0 });
  stack.defer(() => system.stop());
  const client = new Client(system.controlUrl);
  stack.defer(() => client.close());
  const asks = askedBy(client);
  const { body } = await asks.send({ method: "GET", path: "/openapi.json" });
  const described = new DescribedAnswers(JSON.parse(body));
  const session = new RestSession(asks, described);
  const fuzzer: Fuzzer<ApiRequest> = {
    inputs: apiRequests(described.operations),
    play: async (input) => {
      await session.play(input);
      await session.restore();
    },
    show: showRequest,
    prepare: () => session.prepare(),
    facts: () => session.facts(name),
  };
  return fuzzer as Fuzzer<unknown>;
}

function askedBy(client: Client): Asked {
  const send: Asked["send"] = async (sent) => {
    const answer = await client.send(sent);
    if (answer.status >= 500) throw new Fault(`answered ${answer.status}: ${answer.body.slice(0, 300)}`);
    return answer;
  };
  return {
    send,
    async admin(method, path, body) {
      const headers = {
        authorization: `Bearer ${adminToken}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      };
      const text = body === undefined ? undefined : JSON.stringify(body);
      const answer = await send({ method, path: `/api/v1${path}`, headers, body: text });
      if (answer.status >= 300)
        throw new Fault(`${method} ${path} by the administrator: ${answer.status} ${answer.body}`);
      return answer.body === "" ? {} : JSON.parse(answer.body);
    },
  };
}
