// Each client is held against the same cases of clients/conformance.

import { describe } from "vitest";
import { clients } from "./clients.ts";
import { conforms, shares } from "./conformance.ts";

describe.each(clients)("the client in $language", ({ driver }) => {
  conforms(driver);
  describe("many calls at once", () => shares(driver));
});
