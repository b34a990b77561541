// PHP by FastCGI, as nginx speaks it: the only way in which what a request has reaches PHP byte for byte.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { Program } from "../fixtures/servers/program.ts";
import { decodedReadings } from "./line-servers.ts";
import { plainSpelling, type Readings, type Servers, type SpelledRequest } from "./server.ts";

const types = { begin: 1, end: 3, params: 4, stdin: 5, stdout: 6 };
const mostContent = 65_535;

export class Php implements Servers {
  readonly #program: Program;
  readonly #socket: Socket;
  #received = Buffer.alloc(0);
  #output: Buffer[] = [];
  #answered: ((output: string) => void) | undefined;

  private constructor(program: Program, socket: Socket) {
    this.#program = program;
    this.#socket = socket;
    socket.on("data", (bytes: Buffer) => this.#receive(bytes));
  }

  static async start(): Promise<Php> {
    const port = await freePort();
    let socket: Socket | undefined;
    const program = await Program.start({
      command: "php-cgi",
      args: ["-n", "-d", "display_errors=0", "-d", "log_errors=0", "-b", `127.0.0.1:${port}`],
      env: { PHP_FCGI_MAX_REQUESTS: "0" },
      readyWhen: async () => {
        socket = await connected(port);
        return socket !== undefined;
      },
    });
    return new Php(program, socket as Socket);
  }

  async ask(requests: readonly SpelledRequest[]): Promise<Record<string, Readings>[]> {
    const answers: Record<string, Readings>[] = [];
    for (const request of requests) {
      const output = new Promise<string>((resolve) => {
        this.#answered = resolve;
      });
      this.#socket.write(fastCgiOf(request));
      const [, json = ""] = (await output).split("\r\n\r\n");
      answers.push(decodedReadings(JSON.parse(json)));
    }
    return answers;
  }

  async stop(): Promise<void> {
    this.#socket.destroy();
    await this.#program.stop();
  }

  #receive(bytes: Buffer): void {
    this.#received = Buffer.concat([this.#received, bytes]);
    while (this.#received.length >= 8) {
      const length = this.#received.readUInt16BE(4);
      const whole = 8 + length + (this.#received[6] ?? 0);
      if (this.#received.length < whole) return;
      const type = this.#received[1];
      if (type === types.stdout) this.#output.push(this.#received.subarray(8, 8 + length));
      this.#received = this.#received.subarray(whole);
      if (type !== types.end) continue;
      const output = Buffer.concat(this.#output).toString("latin1");
      this.#output = [];
      this.#answered?.(output);
    }
  }
}

async function connected(port: number): Promise<Socket | undefined> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return socket;
  } catch {
    return undefined;
  }
}

function fastCgiOf({ name, query, body, type, cookie }: SpelledRequest): Buffer {
  const params = {
    REQUEST_METHOD: "POST",
    SCRIPT_FILENAME: `${import.meta.dirname}/servers/request.php`,
    REDIRECT_STATUS: "200",
    QUERY_STRING: query,
    CONTENT_TYPE: type,
    CONTENT_LENGTH: `${body.length}`,
    ...(cookie === "" ? {} : { HTTP_COOKIE: cookie }),
    PLAIN_SPELLING: plainSpelling(name, "1"),
  };
  const pairs = Object.entries(params).map(([key, value]) => {
    const lengths = Buffer.alloc(8);
    lengths.writeUInt32BE(2 ** 31 + key.length, 0);
    lengths.writeUInt32BE(2 ** 31 + value.length, 4);
    return Buffer.concat([lengths, Buffer.from(key + value, "latin1")]);
  });
  // The role is "responder", and the connection stays.
  return Buffer.concat([
    recordOf(types.begin, Buffer.from([0, 1, 1, 0, 0, 0, 0, 0])),
    ...recordsOf(types.params, Buffer.concat(pairs)),
    ...recordsOf(types.stdin, Buffer.from(body, "latin1")),
  ]);
}

/** @returns the content in records, and the empty one that ends it */
function recordsOf(type: number, content: Buffer): Buffer[] {
  const records: Buffer[] = [];
  for (let at = 0; at < content.length; at += mostContent) {
    records.push(recordOf(type, content.subarray(at, at + mostContent)));
  }
  return [...records, recordOf(type, Buffer.alloc(0))];
}

function recordOf(type: number, content: Buffer): Buffer {
  const head = Buffer.from([1, type, 0, 1, 0, 0, 0, 0]);
  head.writeUInt16BE(content.length, 4);
  return Buffer.concat([head, content]);
}
