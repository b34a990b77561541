// Opens the WebSocket to the control plane. TLS and HTTP use the configured host name, whatever address is dialled.
//
// Debian's lua-resty-websocket is older than OpenResty's: it has no option for the name, and verifies the one in the URL. So the
// address to dial is replaced at its socket, which both versions have.

import { webSocketLibrary } from "../runtime/lua-modules.ts";

/**
 * @param url ws:// or wss://
 * @param options of the library's `new`
 * @param connectOptions of the library's `connect`
 * @returns a socket that the other side has answered, or else the error message; and the HTTP status of the answer: three digits,
 * or "" if it is not known. The library takes every status for an open socket
 */
export function dial(
  url: string,
  options: object,
  connectOptions: object,
): LuaMultiReturn<[client: WebSocketClient | undefined, failure: string | undefined, status: string]> {
  if (webSocketLibrary === undefined) return $multi(undefined, "lua-resty-websocket is not installed", "");
  const [client, failure] = webSocketLibrary.new(options);
  if (client === undefined) return $multi(undefined, failure, "");
  const socket = rawget(client, "sock");
  if (socket === undefined) return $multi(undefined, "this lua-resty-websocket hides its socket", "");
  reachLocalhost(socket);
  reportRefusedCertificates(socket);
  const answer = readAnswerBeside(socket);
  const [connected, connectFailure] = client.connect(url, connectOptions);
  if (connected === undefined) return $multi(undefined, withAdvice(url, connectFailure), "");
  return $multi(client, undefined, answer.status);
}

/** nginx's resolver only asks DNS, which may not know localhost. */
function reachLocalhost(socket: TcpSocket): void {
  const { connect } = socket;
  socket.connect = function (host, port, options) {
    return connect.call(this, host === "localhost" ? "127.0.0.1" : host, port, options);
  };
}

/** If the peer answers at once, ngx_lua reports success for a certificate that it has rejected, although it has hung up. */
function reportRefusedCertificates(socket: TcpSocket): void {
  const { sslhandshake } = socket;
  socket.sslhandshake = function (reusedSession, serverName, verify) {
    const [secured, failure] = sslhandshake.call(this, reusedSession, serverName, verify);
    if (!secured) return $multi(undefined, failure);
    const [times] = this.getreusedtimes();
    if (times === undefined) return $multi(undefined, "certificate not trusted, or host mismatch");
    return $multi(secured, undefined);
  };
}

/** The control plane's answer to the handshake. */
interface HandshakeAnswer {
  /** Three digits, or "" if it is not known. */
  status: string;
}

/** lua-resty-websocket takes every HTTP answer for an open socket, and would then read its text as frames. */
function readAnswerBeside(socket: TcpSocket): HandshakeAnswer {
  const answer: HandshakeAnswer = { status: "" };
  const { receiveuntil } = socket;
  socket.receiveuntil = (pattern) => {
    const read = receiveuntil.call(socket, pattern);
    return () => {
      const [head, failure] = read();
      const [status] = string.match(head ?? "", "^%s*HTTP/%d%.%d (%d%d%d)");
      answer.status = status ?? "";
      return $multi(head, failure);
    };
  };
  return answer;
}

/**
 * One message for everything that may be wrong with the certificate: which fault OpenSSL names varies from try to try, and nginx
 * logs it.
 */
const untrusted =
  "its certificate is not trusted, or is for another name: lua_ssl_trusted_certificate in nginx.conf must name a file with the CA that signed it";

function isOfCertificate(failure: string): boolean {
  return failure.includes("certificate") || failure.includes("mismatch");
}

function withAdvice(url: string, failure: string | undefined): string | undefined {
  if (failure === undefined || !isOfCertificate(failure)) return failure;
  const [isAddress] = string.find(url, "^wss://[%d.]+[:/]");
  if (isAddress === undefined) return untrusted;
  return `${untrusted}; nginx does not compare IP addresses with a certificate: SLUICE_CONTROL_URL must have a host name that the certificate contains`;
}
