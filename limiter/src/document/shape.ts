// What a field of a document may hold. The validator walks it, and the control plane derives its JSON Schema from it.

export type Shape =
  | {
      readonly kind: "text";
      readonly expected: string;
      readonly maxBytes: number;
      readonly accepts?: (this: void, text: string) => boolean;
      /** More exactly what was expected of a text that is not accepted; undefined: no more than `expected` says. */
      readonly explains?: (this: void, text: string) => string | undefined;
    }
  | { readonly kind: "integer"; readonly min: number; readonly max: number }
  | { readonly kind: "duration"; readonly min: string; readonly max: string }
  | { readonly kind: "choice"; readonly of: readonly string[] }
  | { readonly kind: "list"; readonly of: Shape; readonly minItems: number; readonly maxItems: number }
  | {
      /** By names that the document chooses. */
      readonly kind: "map";
      readonly names: Shape & { kind: "text" };
      readonly of: Shape;
      readonly minItems: number;
      readonly maxItems: number;
    }
  /** One of these, told apart by their kind alone: no two may be of the same JSON type. */
  | { readonly kind: "either"; readonly of: readonly Shape[] }
  | { readonly kind: "record"; readonly fields: Readonly<Record<string, Field>> };

export interface Field {
  readonly shape: Shape;
  readonly description: string;
  readonly required?: boolean;
  /** What an absent field means, as JSON. */
  readonly default?: string | number | readonly string[];
}
