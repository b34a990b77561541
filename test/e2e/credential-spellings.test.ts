// A client spells one credential in another way with each request, so that Sluice counts each by itself, and the service accepts them all.

import { generateKeyPairSync, sign, verify } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { Program } from "../fixtures/servers/program.ts";

const quota = 5;
const attempts = 15;
const credential = "YW5uOnNlY3JldA==";

const services = ["PHP", "basic-auth of Node"] as const;
/** All are ann:secret to both services, unless others are named. */
const spellings: readonly (readonly [string, (i: number) => string, readonly string[]])[] = [
  ["dots within", (i) => `${credential.slice(0, 4)}${".".repeat(i)}${credential.slice(4)}`, services],
  ["exclamation marks within", (i) => `${credential.slice(0, 4)}${"!".repeat(i)}${credential.slice(4)}`, ["PHP"]],
  ["other bits left over", (i) => credential.replace("A==", `${String.fromCharCode(65 + (i % 16))}==`), services],
  ["more padding", (i) => `${credential}${"=".repeat(i)}`, services],
  ["no padding", () => credential.replaceAll("=", ""), services],
  ["a byte 0 and more behind", (i) => Buffer.from(`ann:secret\0${i}`).toString("base64"), ["PHP"]],
];

/** Reads the header by the pattern of the npm package basic-auth, which middlewares of Express use. */
function startNode(): Promise<Server> {
  const server = createServer(({ headers }, response) => {
    const match = /^ *(?:[Bb][Aa][Ss][Ii][Cc]) +([A-Za-z0-9._~+/-]+=*) *$/.exec(headers.authorization ?? "");
    const basic = Buffer.from(match?.[1] ?? "", "base64")
      .toString()
      .split(":");
    response.end(JSON.stringify({ basic }));
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

let php: Program;
let node: Server;
const urls: Record<string, string> = {};
const gateways: Record<string, LoneGateway> = {};
beforeAll(async () => {
  const port = await freePort();
  urls["PHP"] = `http://127.0.0.1:${port}`;
  php = await Program.start({
    command: "php",
    args: ["-n", "-S", `127.0.0.1:${port}`, join(import.meta.dirname, "../fixtures/servers/log-in/log-in.php")],
    readyWhen: () =>
      ask(`http://127.0.0.1:${port}`).then(
        ({ status }) => status === 200,
        () => false,
      ),
  });
  node = await startNode();
  urls["basic-auth of Node"] = `http://127.0.0.1:${(node.address() as AddressInfo).port}`;
  const limits = [{ algorithm: "fixed-window", quota, window: "366d" }];
  const policy = { name: "p", key: ["header:authorization"], onMissingKey: "deny", limits };
  for (const name of services) {
    gateways[name] = await LoneGateway.start({ policies: [policy], env: { SLUICE_UPSTREAM: urls[name] as string } });
  }
});
afterAll(async () => {
  for (const gateway of Object.values(gateways)) await gateway.stop();
  await php?.stop();
  node?.closeAllConnections();
  node?.close();
});

describe.each(services)("%s behind nginx", (name) => {
  const accepts = async (url: string, basic: string) => {
    const { status, body } = await ask(url, { headers: { authorization: `Basic ${basic}` } });
    return status === 200 && `${JSON.parse(body).basic}` === "ann,secret";
  };
  const deceiving = spellings.filter(([, , deceived]) => deceived.includes(name));

  it.each(deceiving)("is not reached with %s in the credentials of Basic", async (_, spell) => {
    let got = 0;
    for (let i = 1; i <= attempts; i++) {
      expect(await accepts(urls[name] as string, spell(i))).toBe(true);
      // One of the sixteen spellings of the bits left over is the right one.
      if (spell(i) !== credential && (await accepts((gateways[name] as LoneGateway).url, spell(i)))) got += 1;
    }
    expect(got).toBe(0);
  });

  it("is reached with credentials as clients write them, up to the quota", async () => {
    let got = 0;
    for (let i = 0; i < attempts; i++) {
      if (await accepts((gateways[name] as LoneGateway).url, credential)) got += 1;
    }
    expect(got).toBe(quota);
  });
});

describe("one JSON Web Token behind a scheme", () => {
  const places: Readonly<Record<string, (spelled: string) => readonly [string, Record<string, string>]>> = {
    "header:x-authorization": (spelled) => ["/", { "x-authorization": spelled }],
    "cookie:token": (spelled) => ["/", { cookie: `token=${encodeURIComponent(spelled)}` }],
    "query:token": (spelled) => [`/?token=${encodeURIComponent(spelled)}`, {}],
  };
  let gateway: LoneGateway;
  beforeAll(async () => {
    const policies = Object.keys(places).map((key, i) => ({
      name: `p${i}`,
      key: [key],
      limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
    }));
    gateway = await LoneGateway.start({ policies });
  });
  afterAll(() => gateway?.stop());

  it.each(Object.keys(places))("has one counter as %s, however a client spells it", async (key) => {
    const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const signed = `${Buffer.from('{"alg":"RS256"}').toString("base64url")}.${Buffer.from('{"sub":"ann"}').toString("base64url")}`;
    const signature = sign("RSA-SHA256", Buffer.from(signed), privateKey);
    const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const written = signature.toString("base64url");
    const first = digits.indexOf(written.at(-1) as string) & 0x30;
    let got = 0;
    for (let i = 0; i < 16; i++) {
      const spelled = `${written.slice(0, -1)}${digits[first | i]}`;
      // Node takes each of them for the signature.
      expect(verify("RSA-SHA256", Buffer.from(signed), publicKey, Buffer.from(spelled, "base64url"))).toBe(true);
      for (const scheme of ["Bearer ", "bearer ", "BEARER  ", "bEARER ", "BeArEr   ", `bearer${" ".repeat(i + 3)}`]) {
        const [path, headers] = (places[key] as (typeof places)[string])(`${scheme}${signed}.${spelled}`);
        const { status } = await ask(gateway.url + path, { headers });
        expect([200, 400, 404, 429]).toContain(status);
        if (status === 404) got += 1;
      }
    }
    expect(got).toBe(quota);
  });
});

describe("a session in a cookie that a service finds elsewhere than others do, or cuts", () => {
  let gateway: LoneGateway;
  let koa: Server;
  beforeAll(async () => {
    const port = await freePort();
    // As the npm package cookies reads it, which Koa has.
    koa = createServer(({ headers }, response) => {
      const value = /(?:^|;) *sid=([^;]*)/.exec(headers.cookie ?? "")?.[1] ?? "";
      response.end(`session ${value.startsWith('"') ? value.slice(1, -1) : value}`);
    });
    await new Promise<void>((resolve) => koa.listen(0, "127.0.0.1", resolve));
    const limits = [{ algorithm: "fixed-window", quota, window: "366d" }];
    gateway = await LoneGateway.start({
      policies: [{ name: "p", key: ["cookie:sid", "path"], onMissingKey: "deny", limits }],
      env: { SLUICE_UPSTREAM: `http://127.0.0.1:${port}` },
      edit: (config) =>
        config.replace(
          /\bhttp \{/,
          `http {
            server {
              listen 127.0.0.1:${port};
              location / { return 200 "session $cookie_sid"; }
              location /koa { proxy_pass http://127.0.0.1:${(koa.address() as AddressInfo).port}; }
            }`,
        ),
    });
  });
  afterAll(async () => {
    await gateway?.stop();
    koa?.closeAllConnections();
    koa?.close();
  });

  /** Returns how many of the requests reach the session. */
  const reached = async (path: string, spell: (i: number) => string) => {
    let got = 0;
    for (let i = 0; i < attempts; i++) {
      const { body } = await ask(gateway.url + path, { headers: { cookie: spell(i) } });
      if (body === "session REAL") got += 1;
    }
    return got;
  };

  it.each([
    ["behind a comma", (i: number) => `a=1,sid=REAL; sid=r${i}`],
    ["behind a comma and a blank", (i: number) => `a=1, sid=REAL; sid=r${i}`],
    ["behind a comma, in capitals", (i: number) => `a=1,SID=REAL; sid=r${i}`],
    ["behind a comma at the beginning", (i: number) => `,sid=REAL; sid=r${i}`],
  ])("is not reached %s at nginx", async (_, spell) => {
    expect(await reached("/", spell)).toBe(0);
  });

  it("is not reached behind a quote at Koa, which drops the last character, too", async () => {
    expect(await reached("/koa", (i) => `sid="REAL${String.fromCharCode(65 + i)}`)).toBe(0);
  });

  it.each(["/", "/koa"])("is reached as clients write it, up to the quota: %s", async (path) => {
    expect(await reached(path, () => "sid=REAL")).toBe(quota);
  });
});

describe("a session in a cookie", () => {
  const session = "djIuWDI5aGRYUm9NbDl3Y205NGVTMHdNVEl6|1764270000|c2lnbmF0dXJlLW9mLXRoaXMtc2Vzc2lvbg==";
  let gateway: LoneGateway;
  beforeAll(async () => {
    const limits = [{ algorithm: "fixed-window", quota, window: "366d" }];
    const policies = [
      { name: "parts", match: { paths: ["/parts"] }, key: ["cookie:_oauth2_proxy"], limits },
      { name: "servlets", match: { paths: ["/servlets", "/servlets/*"] }, key: ["cookie:JSESSIONID"], limits },
    ];
    gateway = await LoneGateway.start({ policies });
  });
  afterAll(() => gateway?.stop());

  /** nginx serves nothing, so what is not refused is answered 404. */
  const statusOf = async (target: string, cookie?: string) =>
    (await ask(gateway.url + target, { headers: cookie === undefined ? {} : { cookie } })).status;

  it("has one counter, wherever a client cuts it into those that oauth2-proxy joins", async () => {
    let got = 0;
    for (let i = 0; i < attempts; i++) {
      const cookie = `_oauth2_proxy_0=${session.slice(0, 10 + i)}; _oauth2_proxy_1=${session.slice(10 + i)}`;
      if ((await statusOf("/parts", cookie)) === 404) got += 1;
    }
    expect(got).toBe(quota);
    expect(await statusOf("/parts", `_oauth2_proxy=${session}`)).toBe(429);
  });

  it.each([
    "/servlets;jsessionid=1A",
    "/servlets;JSESSIONID=1A",
    "/servlets;a=b;jsessionid=1A?x=1",
    "/servlets;jsession%69d=1A",
  ])("that Tomcat and Jetty take from the path is not absent: %s", async (target) => {
    expect(await statusOf(target)).toBe(400);
    expect(await statusOf(target, "JSESSIONID=")).toBe(400);
    expect(await statusOf(target, "JSESSIONID=2B")).toBe(404);
    // Tomcat or Jetty drops these.
    for (const cookie of ["JSESSIONID=\t2B", 'a="; JSESSIONID=2B', "$Version=2; JSESSIONID=2B", "JSESSIONID_0=2B"])
      expect(await statusOf(target, cookie)).toBe(400);
    for (const value of ["2B,x", '2B"', '"2B', '" 2B"'])
      expect(await statusOf(target, `JSESSIONID=${value}`)).toBe(400);
  });

  it.each(["/servlets;x=1", "/servlets;xjsessionid=1A", "/servlets?a;jsessionid=1A", "/servlets/jsessionid=1A"])(
    "is absent if there is no such parameter of the path: %s",
    async (target) => {
      for (let i = 0; i <= quota; i++) expect(await statusOf(target)).toBe(404);
    },
  );
});
