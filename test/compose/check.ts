// Against a running `docker compose up`: puts a cluster policy, sends more than its quota to both gateways at once, and
// expects exactly the quota to be let through by the two together. Needs SLUICE_ADMIN_TOKEN (see the README).

import { ask, askAtOnce } from "../fixtures/requests.ts";

const controlUrl = "http://127.0.0.1:8081";
const gatewayUrls = ["http://127.0.0.1:8080", "http://127.0.0.1:8090"];
const quota = 100;
const offered = 500;

const token = process.env["SLUICE_ADMIN_TOKEN"];
if (!token) {
  console.error("SLUICE_ADMIN_TOKEN: expected the admin token that the control plane's log shows, got nothing");
  process.exit(1);
}

const name = `compose-check-${Date.now()}`;
const url = `${controlUrl}/api/v1/apps/default/policies/${name}?wait=5s`;
const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
const policy = {
  scope: "cluster",
  match: { paths: [`/${name}`] },
  limits: [{ algorithm: "fixed-window", quota, window: "1d" }],
};
const put = await ask(url, { method: "PUT", headers, body: JSON.stringify(policy) });
console.log(`PUT ${name}: ${put.status} ${put.body.trim()}`);

const statuses = await askAtOnce(
  gatewayUrls.map((gatewayUrl) => `${gatewayUrl}/${name}`),
  offered,
);
console.log(`${offered} requests at once to two gateways: ${JSON.stringify(statuses)}`);
await ask(url, { method: "DELETE", headers });

const applied = JSON.parse(put.body).applied;
const exact = statuses[200] === quota && statuses[429] === offered - quota;
const ok = put.status === 201 && applied?.gateways === 2 && applied.acked === 2 && exact;
console.log(
  ok ? `as expected: exactly ${quota} admitted` : `expected 2 gateways to apply it and admit exactly ${quota}`,
);
process.exitCode = ok ? 0 : 1;
