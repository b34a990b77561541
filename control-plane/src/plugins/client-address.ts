// The address of the client, for limits, the audit trail and the log. X-Forwarded-For counts only if it comes from a proxy that
// SLUICE_TRUSTED_PROXIES names.

import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import fp from "fastify-plugin";

declare module "fastify" {
  interface FastifyRequest {
    /** An IPv4 or IPv6 address; empty if the client has left already. An IPv4-mapped IPv6 address is the IPv4 address. */
    readonly address: string;
  }
}

export default fp(
  async (app) => {
    app.decorateRequest("address", {
      getter(this: FastifyRequest) {
        // A trusted proxy may still pass on what a stranger wrote: also an address with a zone, which may be any text.
        const said = plain(this.ip);
        return isIP(said) > 0 && !said.includes("%") ? said : plain(this.socket.remoteAddress);
      },
    });
  },
  { name: "client-address" },
);

function plain(address = ""): string {
  return address.replace(/^::ffff:(?=[0-9.]+$)/i, "");
}
