// Describes what a field of a document may contain. The validator walks the shapes, and the control plane derives its JSON Schema
// from them.

export type Shape =
  | {
      readonly kind: "text";
      readonly expected: string;
      readonly maxBytes: number;
      readonly accepts?: (this: void, text: string) => boolean;
      /** Returns more exactly what was expected of a text that is not accepted; undefined: `expected` says it all. */
      readonly explains?: (this: void, text: string) => string | undefined;
    }
  | { readonly kind: "integer"; readonly min: number; readonly max: number }
  | { readonly kind: "duration"; readonly min: string; readonly max: string }
  | { readonly kind: "choice"; readonly of: readonly string[] }
  | { readonly kind: "boolean" }
  | { readonly kind: "list"; readonly of: Shape; readonly minItems: number; readonly maxItems: number }
  | {
      /** Keyed by names that the document chooses. */
      readonly kind: "map";
      readonly names: Shape & { kind: "text" };
      readonly of: Shape;
      readonly minItems: number;
      readonly maxItems: number;
    }
  /** One of these shapes. They are distinguished by their kind alone, so no two may be of the same JSON type. */
  | { readonly kind: "either"; readonly of: readonly Shape[] }
  | { readonly kind: "record"; readonly fields: Readonly<Record<string, Field>> };

export interface Field {
  readonly shape: Shape;
  readonly description: string;
  readonly required?: boolean;
  /** The value of an absent field, as JSON. */
  readonly default?: string | number | readonly string[];
}

/** Lua has no order of fields. */
export function fieldNames({ fields }: Shape & { kind: "record" }): string[] {
  const names: string[] = [];
  for (const name in fields) names.push(name);
  return names;
}
