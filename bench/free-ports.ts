// Finds ports of loopback on which nothing listens at the moment.
import { type AddressInfo, createServer } from "node:net";

/** All are held before any is released, so that they differ. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports = await Promise.all(
    servers.map(
      (server) =>
        new Promise<number>((resolve, reject) => {
          server.on("error", reject);
          server.listen({ host: "127.0.0.1", port: 0 }, () => resolve((server.address() as AddressInfo).port));
        }),
    ),
  );
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
