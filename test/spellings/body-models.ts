// Models of what takes the body of a form for something else, by their sources: none of them runs here.
//
// - Laravel (Illuminate\Http, InteractsWithContentTypes::isJson, Request::getInputSource): JSON if Content-Type has "/json" or "+json" anywhere.
// - formidable 2 and 3 (src/plugins): "urlencoded", "multipart" and "json" anywhere in Content-Type each choose a parser, and the last one stays.
// - h3, with which Nitro and Nuxt read (readBody): a form if Content-Type begins as that of one, in small letters, and otherwise JSON, also without a type.

import { formModels } from "./form-models.ts";
import { leaves, type Readings, type Servers, type SpelledRequest } from "./server.ts";

type Read = (body: string, type: string, name: string) => unknown;

const formType = "application/x-www-form-urlencoded";

/** How each service finds a name in a body. */
export const bodyModels: Readonly<Record<string, Read>> = {
  "Laravel (model)": (body, type, name) =>
    type.includes("/json") || type.includes("+json") ? inJson(body, name) : inFormOfType(body, type, name),
  "formidable (model)": (body, type, name) => {
    if (/json/i.test(type)) return inJson(body, name);
    const [, boundary] = /multipart/i.test(type) ? (/boundary=([^;]+)/i.exec(type) ?? []) : [];
    if (boundary !== undefined) return inMultipart(body, boundary, name);
    return /urlencoded/i.test(type) ? inForm(body, name) : undefined;
  },
  "h3 (model)": (body, type, name) => {
    if (type.startsWith(formType)) return inForm(body, name);
    return type.startsWith("text/") ? undefined : inJson(body, name);
  },
};

export class BodyModels implements Servers {
  async ask(requests: readonly SpelledRequest[]): Promise<Record<string, Readings>[]> {
    return requests.map(({ name, query, body, type }) => {
      const readings: Record<string, Readings> = {};
      for (const [service, read] of Object.entries(bodyModels)) {
        readings[service] = { query: leaves(inForm(query, name)), form: leaves(read(body, type.trim(), name)) };
      }
      for (const [service, read] of Object.entries(formModels)) {
        const isForm = type.trim().toLowerCase().startsWith(formType);
        const value = isForm ? read(body, name, {}) : undefined;
        readings[service] = { form: value === undefined ? [] : [value] };
      }
      return readings;
    });
  }

  async stop(): Promise<void> {}
}

function inFormOfType(body: string, type: string, name: string): unknown {
  return type.toLowerCase().startsWith(formType) ? inForm(body, name) : undefined;
}

function inForm(body: string, name: string): unknown {
  return new URLSearchParams(Buffer.from(body, "latin1").toString()).getAll(name);
}

function inJson(body: string, name: string): unknown {
  try {
    return JSON.parse(Buffer.from(body, "latin1").toString())[name];
  } catch {
    return undefined;
  }
}

function inMultipart(body: string, boundary: string, name: string): unknown {
  return body.split(`--${boundary}`).flatMap((part) => {
    const [head = "", value] = part.split("\r\n\r\n");
    return value !== undefined && head.includes(`name="${name}"`) ? value.replace(/\r\n$/, "") : [];
  });
}
