// What the frameworks of Node read of a request. They run in this process.

import { createRequire } from "node:module";
import { parse as parseQuerystring } from "node:querystring";
import { Readable } from "node:stream";
import { parseCookie } from "cookie";
import { parse as parseOfExpress } from "cookie-of-express";
import express from "express";
import { Hono } from "hono";
import { getCookie } from "hono/cookie";
import { Cookie } from "tough-cookie";
import { leaves, plainSpelling, type Readings, type Servers, type SpelledRequest } from "./server.ts";

type Reader = (request: SpelledRequest) => Readings | Promise<Readings>;

/** The parser of Fastify, which is not ours to import otherwise. */
const parseOfFastify: (text: string) => unknown = createRequire(createRequire(import.meta.url).resolve("fastify"))(
  "fast-querystring",
).parse;

/** Types with which these read a body as a form. */
const ofForms = /^\s*application\/x-www-form-urlencoded\s*(;|$)/i;

const readers: Readonly<Record<string, Reader>> = {
  "Express, extended": readerOfExpress("extended"),
  "Express, simple": readerOfExpress("simple"),
  Fastify: (request) => ({
    ...bothPlaces(request, parseOfFastify, flat),
    cookie: leaves(parseCookie(request.cookie)[request.name]),
  }),
  URLSearchParams: (request) =>
    bothPlaces(
      request,
      (text) => new URLSearchParams(text),
      (params, name) => params.getAll(name),
    ),
  Hono: ofHono,
  "Request.json(), or a form": ofRequest,
  "tough-cookie": ({ name, cookie }) => ({
    cookie: cookie.split(";").flatMap((pair) => {
      const one = Cookie.parse(pair);
      return one?.key === name ? leaves(one.value) : [];
    }),
  }),
};

export class NodeServers implements Servers {
  async ask(requests: readonly SpelledRequest[]): Promise<Record<string, Readings>[]> {
    return Promise.all(
      requests.map(async (request) => {
        const answers: Record<string, Readings> = {};
        for (const [server, read] of Object.entries(readers)) answers[server] = await read(request);
        return answers;
      }),
    );
  }

  async stop(): Promise<void> {}
}

function bothPlaces<Read>(
  { name, query, body, type }: SpelledRequest,
  parse: (text: string) => Read,
  read: (parsed: Read, name: string) => unknown,
): Readings {
  const found = (text: string) => {
    try {
      return leaves(read(parse(text), Buffer.from(name, "latin1").toString()));
    } catch {
      return [];
    }
  };
  // Node's server reads the bytes of a URL as Latin-1. TextDecoder removes a byte order mark, as Request.text() does.
  return {
    query: found(query),
    form: ofForms.test(type) ? found(new TextDecoder().decode(Buffer.from(body, "latin1"))) : [],
  };
}

function flat(parsed: unknown, name: string): unknown {
  return Object.hasOwn(parsed as object, name) ? (parsed as Record<string, unknown>)[name] : undefined;
}

function readerOfExpress(kind: "extended" | "simple"): Reader {
  const app = express();
  app.set("query parser", kind);
  const parse: (query: string) => unknown = app.get("query parser fn");
  const readBody = express.urlencoded({ extended: kind === "extended" });
  const at = (parsed: unknown, name: string) => {
    // The plain spelling's only leaf is where the value is looked for.
    let probe: unknown =
      kind === "extended" ? parse(plainSpelling(name, "1")) : parseQuerystring(plainSpelling(name, "1"));
    let found = parsed;
    while (typeof probe === "object" && probe !== null && !Array.isArray(probe)) {
      const [key = ""] = Object.keys(probe);
      if (typeof found !== "object" || found === null) return undefined;
      found = flat(found, key);
      probe = flat(probe, key);
    }
    return found;
  };
  return async (request) => ({
    query: leaves(at(parse(request.query), request.name)),
    form: leaves(at(await bodyOf(readBody, request), request.name)),
    cookie: kind === "simple" ? [] : leaves(parseOfExpress(request.cookie)[request.name]),
  });
}

async function bodyOf(
  readBody: ReturnType<typeof express.urlencoded>,
  { body, type }: SpelledRequest,
): Promise<unknown> {
  const bytes = Buffer.from(body, "latin1");
  const headers = { "content-type": type, "content-length": `${bytes.length}` };
  const incoming = Object.assign(Readable.from([bytes]), { method: "POST", url: "/", headers, body: undefined });
  await new Promise((resolve) => {
    readBody(incoming as unknown as Parameters<typeof readBody>[0], {} as Parameters<typeof readBody>[1], resolve);
  });
  return incoming.body;
}

async function ofHono(request: SpelledRequest): Promise<Readings> {
  const { name, query, body, type, cookie } = request;
  const app = new Hono();
  let readings: Readings = {};
  app.post("/", async (context) => {
    const form = await context.req.parseBody({ all: true }).catch(() => ({}));
    readings = {
      query: leaves(attempt(() => context.req.queries(name))),
      form: leaves(attempt(() => flat(form, name))),
      cookie: leaves(attempt(() => getCookie(context, name))),
    };
    return context.text("");
  });
  const headers = new Headers();
  if (type !== "") headers.set("content-type", type);
  if (cookie !== "") headers.set("cookie", cookie);
  await app.request(`http://x/?${query}`, { method: "POST", headers, body: Buffer.from(body, "latin1") });
  return readings;
}

/** As handlers read a body of either kind, whatever its type is. */
async function ofRequest({ name, query, body, type }: SpelledRequest): Promise<Readings> {
  const request = new Request("http://x/", { method: "POST", body: Buffer.from(body, "latin1") });
  const text = await request.clone().text();
  const found = await request.json().then(
    (json) => flat(Object(json), name),
    () => (ofForms.test(type) ? new URLSearchParams(text).getAll(name) : []),
  );
  return { query: leaves(new URLSearchParams(query).getAll(name)), form: leaves(found) };
}

function attempt<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
