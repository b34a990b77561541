// The validators of the routes' schemas, made by Fastify's Ajv. Many routes have equal schemas: each is compiled once, because
// this is a good part of a start.

import type { FastifyServerOptions } from "fastify";

type AjvOptions = NonNullable<FastifyServerOptions["ajv"]>;
type Ajv = Parameters<NonNullable<AjvOptions["onCreate"]>>[0];

/** By the schema's JSON text. A validator holds its errors until it is called again, and callers read them at once. */
const validators = new Map<string, ReturnType<Ajv["compile"]>>();

/** The schemas of all routes of the control planes that this process has made. */
export function schemasInUse(): object[] {
  return [...validators.keys()].map((text) => JSON.parse(text));
}

export function compileOnce(ajv: Ajv): void {
  const compile = ajv.compile.bind(ajv);
  ajv.compile = ((schema: object) => {
    const text = JSON.stringify(schema);
    const known = validators.get(text);
    if (known !== undefined) return known;
    const made = compile(schema);
    validators.set(text, made);
    return made;
  }) as typeof ajv.compile;
}
