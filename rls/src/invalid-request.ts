// A request that nobody can decide, whoever asks: Envoy hears INVALID_ARGUMENT with the field, what was expected and what came.

export class InvalidRequest extends Error {
  constructor(field: string, expected: string, got: string) {
    super(`${field}: expected ${expected}, got ${got}`);
    this.name = "InvalidRequest";
  }
}
