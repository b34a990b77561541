// Sends the requests of api-requests.ts to a control plane whose gateway enforces what is accepted.

import { DescribedAnswers } from "../fixtures/clients/described-answers.ts";
import { type ApiRequest, apiRequests } from "./api-requests.ts";
import { RestSession, showRequest } from "./rest-session.ts";
import type { Fuzzer, Surroundings, Target } from "./target.ts";

const looksAtFleetEvery = 20;

export const rest: Target = { name: "rest", worker: "control plane", start };

async function start(surroundings: Surroundings): Promise<Fuzzer<unknown>> {
  const watch = await surroundings.controlPlane();
  const { body } = await watch.send({ method: "GET", path: "/openapi.json" });
  const described = new DescribedAnswers(JSON.parse(body));
  const session = new RestSession(watch, described);
  let played = 0;
  const fuzzer: Fuzzer<ApiRequest> = {
    inputs: apiRequests(described.operations),
    play: async (input) => {
      await session.play(input);
      await watch.lookAtStalls(() => session.again(input), showRequest(input));
      await session.restore();
      played += 1;
      if (played % looksAtFleetEvery === 0) await watch.lookAtFleet();
    },
    show: showRequest,
    prepare: () => session.prepare(),
    recover: () => watch.untilWell(),
  };
  return fuzzer as Fuzzer<unknown>;
}
