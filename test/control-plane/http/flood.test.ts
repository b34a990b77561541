// Clients that ask for more than they read: each has one answer in memory, and all together no more than there is room for.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import {
  boundConnections,
  mostUnreadBytes,
  signedIn,
  tooMuch,
  unreadBytes,
} from "../../../control-plane/src/http/connections.ts";
import { inTurn } from "../../../control-plane/src/http/turns.ts";
import {
  adminToken,
  gatewayToken,
  sharedControlPlane,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { until, untilPasses } from "../../fixtures/until.ts";

interface Talk {
  readonly socket: Socket;
  received(): string;
}

function talk(port: number, text: string, reads = true, localAddress = "127.0.0.1"): Talk {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  onFinished(() => void socket.destroy());
  let received = "";
  if (reads) socket.on("data", (data) => (received += data.toString()));
  socket.on("error", () => undefined);
  socket.write(text);
  return { socket, received: () => received };
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;

/** A server whose connections are bounded. It answers each request with "served". */
async function startBounded(): Promise<{ server: Server; port: number }> {
  const server = createServer((_, response) => void response.end("served")).listen(0, "127.0.0.1");
  boundConnections(server);
  onFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { server, port };
}

describe("requests of one connection", () => {
  async function start(): Promise<{ port: number; underWay: Map<string, ServerResponse>; cuts: () => number }> {
    const underWay = new Map<string, ServerResponse>();
    let cut = 0;
    const answer = inTurn(
      ({ url = "" }, response) => {
        underWay.set(url, response);
        response.once("close", () => underWay.delete(url));
      },
      () => {
        cut += 1;
      },
    );
    const server = createServer(answer.begin).listen(0, "127.0.0.1");
    onFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    await once(server, "listening");
    return { port: (server.address() as AddressInfo).port, underWay, cuts: () => cut };
  }
  const paths = (underWay: Map<string, ServerResponse>) => [...underWay.keys()];

  it("are answered one after the other, and those of others meanwhile", async () => {
    const { port, underWay } = await start();
    const all = Array.from({ length: 20 }, (_, i) => `/${i}`);
    const client = talk(port, all.map(get).join(""));
    talk(port, get("/other"));
    for (const path of all) {
      await until(`${path} is under way`, () => underWay.has(path));
      expect(paths(underWay).filter((one) => one !== "/other")).toEqual([path]);
      underWay.get(path)?.end(path);
    }
    await untilPasses(() => expect(client.received().match(/\/\d+(?=\r\n)|(?<=\r\n)\/\d+/g)).toEqual(all));
    expect(paths(underWay)).toEqual(["/other"]);
  });

  it("wait while their client does not read the answer before", async () => {
    const { port, underWay } = await start();
    const { socket } = talk(port, get("/large") + get("/next"), false);
    await until("the first is under way", () => underWay.has("/large"));
    underWay.get("/large")?.end(Buffer.alloc(32 * 1_048_576));
    talk(port, get("/later"));
    await until("others are served", () => underWay.has("/later"));
    expect(paths(underWay).sort()).toEqual(["/large", "/later"]);
    socket.resume();
    await until("the next one is under way", () => underWay.has("/next"));
    expect(underWay.has("/large")).toBe(false);
  });

  it("that are far too many close it, and others are served", async () => {
    const { port, underWay, cuts } = await start();
    const flood = talk(port, get("/flood").repeat(1_500));
    const other = talk(port, get("/other"));
    await once(flood.socket, "close");
    expect(cuts()).toBe(1);
    await until("the other is under way", () => underWay.has("/other"));
    underWay.get("/other")?.end("served");
    await untilPasses(() => expect(other.received()).toContain("served"));
  });

  it("are forgotten with it", async () => {
    const { port, underWay, cuts } = await start();
    // As many as may wait of all, 32 at a time.
    for (let i = 0; i < 70; i++) {
      const { socket } = talk(port, get("/one").repeat(32));
      await until("one is under way", () => underWay.size === 1);
      socket.destroy();
      await until("none is", () => underWay.size === 0);
    }
    expect(cuts()).toBe(0);
  });
});

describe("connections", () => {
  it.each(["is closed", "is a gateway's"])("of one address are bounded, and one that %s makes room", async (way) => {
    const server = createServer((_, response) => void response.end("served")).listen(0, "127.0.0.1");
    boundConnections(server);
    const accepted: Socket[] = [];
    server.on("connection", (socket) => accepted.push(socket));
    let cut = 0;
    server.on("cut", (why) => {
      expect(why).toBe("connections");
      cut += 1;
    });
    onFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const all: Socket[] = [];
    for (let i = 0; i < 2_010; i += 30) {
      const some = Array.from({ length: 30 }, () => talk(port, "").socket);
      all.push(...some);
      await Promise.all(some.map((socket) => once(socket, "connect")));
    }
    await until("ten are closed", () => cut === 10);
    // It goes away, or it turns out to be a gateway: either way, one more has room.
    if (way === "is closed") all[0]?.destroy();
    else server.emit(signedIn, accepted[0], "g1");
    await until("another one is served", async () => {
      const client = talk(port, get("/"));
      await Promise.race([once(client.socket, "close"), once(client.socket, "data")]);
      return client.received().includes("served");
    });
  });

  it("of addresses that have taken all give way to another address, and its own stay", async () => {
    const { port } = await startBounded();
    const first = talk(port, get("/"), true, "127.0.0.2");
    await untilPasses(() => expect(first.received()).toContain("served"));
    for (let i = 0; i < 4_030; i += 31) {
      const address = i < 1_999 ? "127.0.0.2" : "127.0.0.3";
      await Promise.all(Array.from({ length: 31 }, () => once(talk(port, "", true, address).socket, "connect")));
    }
    const others = Array.from({ length: 5 }, () => talk(port, get("/"), true, "127.0.0.4"));
    for (const { received } of others) await untilPasses(() => expect(received()).toContain("served"));
    expect(others.map(({ socket }) => socket.closed)).toEqual([false, false, false, false, false]);
  });

  it("of gateways are bounded: the address with the most loses its newest one, and an id has one place", async () => {
    const { server, port } = await startBounded();
    let signedInHere = 0;
    const connectAs = async (address: string, id = `g${signedInHere}`): Promise<Socket> => {
      const accepted = once(server, "connection");
      talk(port, "", true, address);
      const [socket] = (await accepted) as [Socket];
      server.emit(signedIn, socket, id);
      signedInHere += 1;
      return socket;
    };
    const destroyed = (sockets: readonly Socket[]) => sockets.flatMap((one, i) => (one.destroyed ? [i] : []));
    const fleet: Socket[] = [];
    // All gateways of a large fleet come through one address.
    while (fleet.length < 1_999) fleet.push(await connectAs("127.0.0.2"));
    const others: Socket[] = [];
    while (others.length < 2_004) others.push(await connectAs("127.0.0.3"));
    expect(destroyed(others)).toEqual([2_001, 2_002, 2_003]);
    // A gateway of the fleet comes again before its old socket is closed.
    fleet.push(await connectAs("127.0.0.2", "g7"));
    const late = await connectAs("127.0.0.4");
    expect(destroyed([late, ...fleet])).toEqual([]);
    expect(destroyed(others)).toEqual([2_000, 2_001, 2_002, 2_003]);
  });

  it("that leave too much unread are cut, first those of the address that leaves the most", () => {
    const connection = (writableLength: number) => ({ writableLength });
    const half = mostUnreadBytes / 2;
    const export_ = connection(half);
    const [small, large, larger] = [connection(1), connection(half / 2), connection(half / 2 + 1)] as const;
    const rest = [
      [export_, "one"],
      [connection(0), "two"],
    ] as const;
    const cut = (all: Map<typeof small, string>) => tooMuch(all, mostUnreadBytes, unreadBytes);
    expect(cut(new Map([...rest, [large, "two"]]))).toEqual([]);
    expect(cut(new Map([...rest, [small, "two"], [large, "two"], [larger, "two"]]))).toEqual([larger]);
    const all = cut(new Map([...rest, ...Array.from({ length: 8 }, () => [connection(half), "two"] as const)]));
    expect(all).toHaveLength(7);
    expect(all).not.toContain(export_);
  });
});

describe("a request for a WebSocket behind others of its connection", () => {
  const upgrade = `GET /api/v1/push HTTP/1.1
host: x
connection: upgrade
upgrade: websocket
sec-websocket-version: 13
sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==

`.replaceAll("\n", "\r\n");

  it("is answered as any other, in its turn, and its connection ends with its client", async () => {
    let lines = 0;
    const { app, url } = await startControlPlane(
      { SLUICE_LOG_LEVEL: "warn" },
      { logTo: { write: () => (lines += 1) } },
    );
    const port = Number(new URL(url).port);
    const connections = promisify(app.server.getConnections.bind(app.server));
    const all = Array.from({ length: 50 }, () => talk(port, get("/healthz") + get("/healthz") + upgrade));
    const statuses = ({ received }: Talk) => [...received().matchAll(/HTTP\/1.1 (\d+)/g)].map(([, status]) => status);
    const [first] = all as [Talk, ...Talk[]];
    await until("the third is answered", () => statuses(first).length === 3);
    expect(statuses(first)).toEqual(["200", "200", "401"]);
    for (const { socket } of all) socket.destroy();
    await until("nothing is left of them", async () => (await connections()) === 0);
    expect(lines).toBeLessThan(5);
  });
});

describe("the description of the API", () => {
  const running = sharedControlPlane();

  it.each(["/openapi.json", "/docs/json", "/docs/yaml"])(
    "is compressed, and not sent to who has it: %s",
    async (path) => {
      const { url } = running();
      const first = await fetch(`${url}${path}`);
      const text = await first.text();
      expect([first.status, first.headers.get("content-encoding")]).toEqual([200, "gzip"]);
      expect(Number(first.headers.get("content-length"))).toBeLessThan(text.length / 5);
      const etag = first.headers.get("etag") as string;
      const again = await fetch(`${url}${path}`, { headers: { "if-none-match": `W/${etag}` } });
      expect([again.status, await again.text()]).toEqual([304, ""]);
      for (const accepted of ["identity", "gzip;q=0", "br, gzip; q=0.0"]) {
        const plain = await fetch(`${url}${path}`, { headers: { "accept-encoding": accepted } });
        expect([accepted, plain.headers.get("content-encoding")]).toEqual([accepted, null]);
        expect(await plain.text()).toBe(text);
      }
    },
  );

  it("is one answer in memory for a client that asks 1,500 times and reads nothing", async () => {
    const { url, call } = running();
    const { socket } = talk(Number(new URL(url).port), get("/openapi.json").repeat(1_500), false);
    await once(socket.resume(), "close");
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toMatch(/^sluice_control_connections_cut_total\{reason="pipelining"\} 1$/m);
    expect((await call("GET", "/apps")).status).toBe(200);
  });
});

describe("a flood from one address", () => {
  const running = sharedControlPlane();

  it.each([
    ["whose answers are long", get("/metrics")],
    ["that expects what no server knows", get("/metrics").replace("host: x", "host: x\r\nexpect: x")],
    ["without a token to the push socket", get("/api/v1/push")],
  ])("%s delays what comes from another by a few of its requests, however many wait", async (_, flood) => {
    const { app, url } = running();
    const finished: string[] = [];
    const came = new Map<string, number>();
    const note = ({ url: path = "" }: IncomingMessage, response: ServerResponse) => {
      came.set(path, finished.length);
      response.once("finish", () => finished.push(path));
    };
    app.server.prependListener("request", note);
    const port = Number(new URL(url).port);
    const flooding = Array.from({ length: 100 }, () => talk(port, flood.repeat(30), true, "127.0.0.2"));
    await until("the flood is answered", () => finished.length > 100);
    for (const path of ["/healthz", "/openapi.json", "/readyz"]) {
      const { received } = talk(port, get(path));
      await untilPasses(() => expect(received()).toContain("HTTP/1.1 200"));
      expect(finished.indexOf(path) - (came.get(path) ?? 0), path).toBeLessThan(200);
    }
    // Had it been over, nobody would have been delayed.
    expect(finished.length).toBeLessThan(3_000);
    for (const { socket } of flooding) socket.destroy();
    app.server.off("request", note);
  });

  it("delays the connections of others by a few of its requests, however many wait to be accepted", async () => {
    const { app, url } = running();
    const port = Number(new URL(url).port);
    let finished = 0;
    const note = (_: IncomingMessage, response: ServerResponse) => response.once("finish", () => (finished += 1));
    app.server.prependListener("request", note);
    const flooding = Array.from({ length: 100 }, () => talk(port, get("/metrics").repeat(30), true, "127.0.0.2"));
    await until("the flood is answered", () => finished > 100);
    const before = finished;
    const accepted = new Promise<number>((resolve) => {
      let count = 0;
      app.server.on("connection", () => {
        count += 1;
        if (count === 400) resolve(finished);
      });
    });
    const connecting = Array.from({ length: 400 }, () => talk(port, ""));
    expect((await accepted) - before).toBeLessThan(100);
    // Had it been over, nobody would have been delayed.
    expect(finished).toBeLessThan(2_500);
    for (const { socket } of [...flooding, ...connecting]) socket.destroy();
    app.server.off("request", note);
  });

  it.each([
    ["one token", "a gateway"],
    ["one token", "a viewer of the same app"],
    ["one token", "an admin"],
    ["one token", "an admin with a session"],
    ["one token", "a stranger"],
    ["ever other invented tokens", "an admin"],
  ])(
    "with %s delays %s of the same address by a few of its requests, however many have not begun",
    async (credentials, who) => {
      const { app, url, call } = running();
      const viewer = async () => {
        const body = { name: `viewer ${randomUUID()}`, app: "default", role: "viewer" };
        const { token } = (await call("POST", "/tokens", { body })).body;
        await call("GET", "/session", { token });
        return token as string;
      };
      const asking = (path: string, headers: string) => get(path).replace("host: x", `host: x\r\n${headers}`);
      const asks = (path: string, token: string) => asking(path, `authorization: Bearer ${token}`);
      const upgrade =
        "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==";
      const session = async () => {
        const { headers } = await call("POST", "/session", { body: { token: adminToken }, token: undefined });
        return `cookie: ${headers.getSetCookie()[0]?.split(";")[0]}`;
      };
      const others: Record<string, () => string | Promise<string>> = {
        "a gateway": () => asking("/api/v1/push", `authorization: Bearer ${gatewayToken}\r\n${upgrade}`),
        "a viewer of the same app": async () => asks("/api/v1/session", await viewer()),
        "an admin": () => asks("/api/v1/session", adminToken),
        "an admin with a session": async () => asking("/api/v1/session", await session()),
        "a stranger": () => get("/metrics"),
      };
      const request = (await others[who]?.()) as string;
      const token = await viewer();
      const flood =
        credentials === "one token"
          ? () => asks("/api/v1/apps/default/policies", token)
          : () => asks("/metrics", `invented-${randomUUID()}`);
      const port = Number(new URL(url).port);
      const connections: Talk[] = [];
      for (let i = 0; i < 501; i++) {
        const accepted = once(app.server, "connection");
        connections.push(talk(port, ""));
        await accepted;
      }
      const [other, ...flooding] = connections as [Talk, ...Talk[]];
      const answered = () => flooding.filter(({ received }) => received() !== "").length;
      for (const { socket } of flooding) socket.write(flood());
      await until("the flood is answered", () => answered() > 0);
      const before = answered();
      other.socket.write(request);
      await once(other.socket, "data");
      expect(other.received()).toMatch(/^HTTP\/1\.1 (200|101) /);
      expect(answered() - before).toBeLessThan(100);
      // Had it been over, nobody would have been delayed.
      expect(before).toBeLessThan(300);
      await untilPasses(() => expect(answered()).toBe(flooding.length));
      for (const { socket } of connections) socket.destroy();
    },
  );
});
