// Runs one push socket: a hello, then reports, until either side closes it.

import { type GatewayMessage, protocolVersion } from "@sluice/limiter/protocol/push-messages.ts";
import type { RawData, WebSocket } from "ws";
import type { ActivityMessage } from "../activity/activity.ts";
import type { ConsumerFeed } from "./consumer-feed.ts";
import type { CounterOrders } from "./counter-orders.ts";
import type { Fleet } from "./fleet.ts";
import { closeCodes, GatewayLink } from "./gateway-link.ts";
import type { GatewayLog } from "./gateway-log.ts";
import { readGatewayMessage } from "./gateway-message.ts";
import { termOf } from "./position-proof.ts";
import type { Publisher } from "./publisher.ts";
import type { Frame } from "./pushed-state.ts";

export interface PushCounts {
  frameSent(frame: Frame): void;
  snapshotRefused(): void;
}

export interface PushTimes {
  readonly pingEveryMs: number;
  /** A socket is cut when nothing has come from it for this long. */
  readonly silenceMs: number;
  /** A socket must send its hello within this time. */
  readonly helloMs: number;
}

export const defaultPushTimes: PushTimes = { pingEveryMs: 2_000, silenceMs: 15_000, helloMs: 10_000 };

export interface SessionDependencies {
  readonly fleet: Fleet;
  readonly publisher: Publisher;
  readonly counterOrders: CounterOrders;
  readonly consumerFeed: ConsumerFeed;
  readonly counts: PushCounts;
  readonly times: PushTimes;
  readonly gatewayLog: GatewayLog;
  readonly takeActivity: (gateway: string, message: ActivityMessage) => void;
  /** The gateway's IP address. */
  readonly address: string;
  /** Returns how many bytes have come on the socket. */
  readonly bytesRead: () => number;
  /** Called once with what returns how many bytes of a message have come that has not ended. */
  readonly onBegin: (unfinishedBytes: () => number) => void;
  /** Takes a place for the gateway. @returns false if there is none: the socket is closed then */
  readonly takePlace: (gateway: string) => boolean;
}

/**
 * A gateway is heard so often in a second; what it says beyond that waits in its socket. That is several times what one says that answers
 * orders about counters all the time.
 */
const mostMessagesInSecond = 2_000;
/** So much of a message may have come that has not ended within the time of a silence. */
const mostUnfinishedBytes = 4_096;
/** With the mask (RFC 6455, §5.2). */
const controlFrameHeaderBytes = 6;

export function runPushSession(
  socket: WebSocket,
  {
    fleet,
    publisher,
    counterOrders,
    consumerFeed,
    counts,
    times,
    gatewayLog,
    takeActivity,
    address,
    bytesRead,
    onBegin,
    takePlace,
  }: SessionDependencies,
): void {
  let gateway: string | undefined;
  const onFree = () => {
    if (gateway !== undefined) fleet.push(gateway, link, publisher.state);
  };
  const link = new GatewayLink(socket, { onSent: counts.frameSent, onFree });

  let heard = 0;
  const heardTimer = setInterval(() => {
    heard = 0;
    socket.resume();
  }, 1_000);
  const helloTimer = setTimeout(() => link.close(closeCodes.refused, "no hello came"), times.helloMs);
  const lastMessage = { atMs: performance.now(), bytesRead: bytesRead(), bytesOfControlFrames: 0 };
  const onControlFrame = (data: Buffer) => {
    lastMessage.bytesOfControlFrames += data.length + controlFrameHeaderBytes;
  };
  socket.on("ping", onControlFrame);
  socket.on("pong", onControlFrame);
  /** The memory of a message that does not end would be held for ever: pings are answered between its fragments. */
  const unfinishedBytes = () => bytesRead() - lastMessage.bytesRead - lastMessage.bytesOfControlFrames;
  const isUnfinished = () =>
    unfinishedBytes() > mostUnfinishedBytes && performance.now() - lastMessage.atMs >= times.silenceMs;
  onBegin(unfinishedBytes);
  const pingTimer = setInterval(() => {
    if (isUnfinished()) socket.terminate();
    else link.ping(times.silenceMs);
  }, times.pingEveryMs);

  socket.on("message", (data: RawData, isBinary: boolean) => {
    // Messages that arrive between our close frame and the other side's are ignored.
    if (socket.readyState !== socket.OPEN) return;
    link.noteAlive();
    Object.assign(lastMessage, { atMs: performance.now(), bytesRead: bytesRead(), bytesOfControlFrames: 0 });
    heard += 1;
    if (heard === mostMessagesInSecond) socket.pause();
    const message = isBinary ? undefined : readGatewayMessage(data.toString());
    const expectedHello = gateway === undefined;
    if (message === undefined || (message.type === "hello") !== expectedHello) {
      gatewayLog.warn(
        gateway,
        address,
        { type: message?.type },
        "a gateway's message is malformed or out of order; closing its socket",
      );
      link.close(closeCodes.refused, message === undefined ? "malformed message" : "message out of order");
      return;
    }
    if (message.type === "hello") {
      clearTimeout(helloTimer);
      if (!takePlace(message.gateway)) return;
      gateway = message.gateway;
      const { epoch, revision, edition, proof = "", protocol = 1 } = message;
      link.begin({ position: { epoch, revision, edition, term: termOf(proof) }, protocol });
      fleet.join(message, link)?.close(closeCodes.replaced, "replaced by a newer socket of the same gateway");
      fleet.push(gateway, link, publisher.state);
      if (protocol < protocolVersion) gatewayLog.speaksEarlierProtocol(gateway, protocol);
      publisher.noteShown(message);
      consumerFeed.join(gateway, link, protocol, message.consumers);
      gatewayLog.connected(gateway, address);
      return;
    }
    if (message.type === "consumers") {
      consumerFeed.answered(link, message);
      return;
    }
    if (message.type === "counter") {
      counterOrders.answered(link, message);
      return;
    }
    if (gateway === undefined) return;
    if (message.type === "activity") {
      takeActivity(gateway, message);
      return;
    }
    // A report counts only for the gateway that sent it: it changes nothing for other gateways.
    const report = message.type === "refused" ? refusalOf(message, link) : message;
    if (report === undefined) {
      gatewayLog.warn(gateway, address, {}, "a gateway refused something that it was not sent");
      return;
    }
    if (report.type === "refused") {
      counts.snapshotRefused();
      const { revision, problems } = report;
      gatewayLog.warn(gateway, address, { revision, problems }, "a gateway refused a snapshot");
    }
    fleet.report(gateway, link, report);
    if (report.type === "status") return;
    link.answered(report, report.type === "resync" || report.type === "refused" ? report.type : "taken");
    onFree();
  });

  socket.on("close", (code: number) => {
    clearTimeout(helloTimer);
    clearInterval(heardTimer);
    clearInterval(pingTimer);
    consumerFeed.leave(link);
    if (gateway !== undefined && fleet.leave(gateway, link)) gatewayLog.gone(gateway, code);
  });
}

type Refused = Extract<GatewayMessage, { type: "refused" }>;

/**
 * A gateway that cannot read what it was sent, not even its position, refuses it without one. That means what is on its way.
 *
 * @returns undefined: nothing is
 */
function refusalOf(message: Refused, { underWay }: GatewayLink): Refused | undefined {
  if (message.epoch !== "") return message;
  return underWay === undefined ? undefined : { ...message, epoch: underWay.epoch, revision: underWay.revision };
}
