// The outbound WebSocket to the control plane: snapshots come in, results go out. One worker owns it. Reading has a light thread
// of its own, and so has applying snapshots; everything else happens in the owner's main loop.

import { type GatewayMessage, protocolVersion } from "../../../limiter/src/protocol/push-messages.ts";
import { heldConsumers } from "../consumers/held.ts";
import { decisionTotals } from "../metrics/counts.ts";
import { redisReport } from "../metrics/redis-health.ts";
import { runEvery, runUntilDone } from "../runtime/background.ts";
import { postponeCollection } from "../runtime/collector.ts";
import { defectCounts, noteDefect, recentDefects } from "../runtime/defects.ts";
import { cjson, semaphoreLibrary } from "../runtime/lua-modules.ts";
import { noteOutage, noteReturn } from "../runtime/outages.ts";
import { rest } from "../runtime/slices.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import { wellFormed } from "../runtime/well-formed.ts";
import type { Settings } from "../settings.ts";
import { currentState } from "../snapshot/current.ts";
import { catchUp } from "../snapshot/distribution.ts";
import { setConnected } from "../snapshot/live-gateways.ts";
import { stopPublishing } from "../snapshot/publication.ts";
import { addPart, endText, noText } from "../snapshot/text.ts";
import { version } from "../version.ts";
import { warningsOf } from "../warnings.ts";
import { nextActivity, setActivityTaken } from "./activity-reports.ts";
import { lackingConsumers, maintainConsumers } from "./consumers.ts";
import { dial } from "./dial.ts";
import { maintain } from "./maintenance.ts";
import { claim, renew, resign } from "./ownership.ts";
import { beginsFrame, lateAnswer, receive } from "./receive.ts";

/** The name for outages in the log. */
const controlPlane = "push";
/** The HTTP status of a handshake that succeeded. */
const switchingProtocols = "101";

const claimEverySeconds = 0.2;
const turnSeconds = 0.2;
const connectTimeoutMs = 2000;
/** The control plane pings every 2 s (one of an older version every 5 s), so after this much silence it is gone. */
const silenceTimeoutMs = 15_000;
/** The same if there is another one to go to: a host that is lost without a word costs this long. */
const silenceTimeoutOfSeveralMs = 6_000;
const statusEverySeconds = 2;
const firstPauseSeconds = 0.1;
const longestPauseSeconds = 2;
/** A connection that lasted this long counts as good: the next pause is short again. */
const goodSessionSeconds = 5;
/** The pause after another gateway with the same id took over: two such gateways must not keep displacing each other. */
const sameIdPauseSeconds = 20;
/** The close code that the control plane uses for that. */
const replacedCode = 4000;
/** 10,000 policies take about 5 MB. */
const longestMessageBytes = 67_108_864;
/** The size of a frame of a snapshot. To read one takes half a millisecond, including copies that are five times as long. */
const mostBytesAtOnce = 65_536;

interface Outgoing {
  readonly kind: "text" | "pong";
  readonly data: string;
}

let owning = false;
/** The pause after the current connection, or before the next try. */
let pauseSeconds = firstPauseSeconds;
/** The failures of this outage that were logged: each is logged once, not at each try. */
let logged: Record<string, true | undefined> = {};
/** The place in `pushUrls` of the control plane that is connected, or is tried next. */
let chosen = 0;
/** How many tries have failed one after the other. */
let failures = 0;

/** Called when a worker starts. The first worker that finds the socket without an owner opens it. */
export function keepPushSocket(settings: Settings): void {
  runEvery(claimEverySeconds, (premature) => {
    if (premature || ngx.worker.exiting()) return;
    if (owning) {
      noteHistory(settings.pushUrls[chosen] as string, currentState().position.epoch);
      return;
    }
    if (!claim()) return;
    owning = true;
    pauseSeconds = firstPauseSeconds;
    logged = {};
    if (runUntilDone(() => staysOwner(settings)) !== undefined) stopOwning();
  });
}

/** @returns whether this worker still is the owner */
function staysOwner(settings: Settings): boolean {
  const [ok, owner] = pcall(own, settings);
  if (!ok) noteDefect("push", "the connection to the control plane broke off, because Sluice failed", owner);
  if (ok && owner === true) return true;
  stopOwning();
  return false;
}

function stopOwning(): void {
  owning = false;
  setConnected(false);
  stopPublishing();
  resign();
}

/**
 * Connects, serves until the connection is lost, and waits before the next try. The next try is at the next control plane.
 *
 * @returns false if this worker is no longer the owner
 */
function own(settings: Settings): boolean {
  if (ngx.worker.exiting()) return false;
  let pauseAtLeastSeconds = 0;
  const pushUrl = settings.pushUrls[chosen] as string;
  const [socket, failure] = open(settings, pushUrl);
  if (socket !== undefined) {
    const openedAtSeconds = stopwatchSeconds();
    logged = {};
    failures = 0;
    noteReturn(controlPlane, `connected to the control plane at ${pushUrl}`);
    const end = serve(settings, socket, pushUrl);
    // The claim shows whether another worker of this nginx has replaced this one, or another gateway has.
    if (end === "resigned" || !renew()) return false;
    if (end === "replaced") {
      noteOutage(
        controlPlane,
        `another gateway has the same id ${settings.gatewayId}: set SLUICE_GATEWAY_ID so that each has its own`,
      );
      pauseAtLeastSeconds = sameIdPauseSeconds;
    } else if (stopwatchSeconds() - openedAtSeconds >= goodSessionSeconds) {
      pauseSeconds = firstPauseSeconds;
    }
  } else {
    failures += 1;
    const sentence = failure ?? "no connection";
    if (logged[sentence] === undefined) noteOutage(controlPlane, sentence);
    logged[sentence] = true;
  }
  chosen = (chosen + 1) % settings.pushUrls.length;
  const triedAll = failures % settings.pushUrls.length === 0;
  const longest = triedAll ? pauseSeconds : firstPauseSeconds;
  // Full jitter: gateways that lost the same control plane together do not reconnect at the same moment.
  const untilSeconds = stopwatchSeconds() + pauseAtLeastSeconds + math.random() * longest;
  while (stopwatchSeconds() < untilSeconds) {
    ngx.sleep(math.min(turnSeconds, math.max(0.001, untilSeconds - stopwatchSeconds())));
    // nginx waits for whoever sleeps: a worker that is to end would last as long as the pause.
    if (ngx.worker.exiting() || !renew()) return false;
  }
  // The pause grows when all control planes have failed.
  if (triedAll) pauseSeconds = math.min(pauseSeconds * 2, longestPauseSeconds);
  return renew();
}

/** The histories that this worker has seen by this socket, each with the control plane that had it. */
const histories: Record<string, string | undefined> = {};
let lastHistory = "";
let saidHistories = false;

/**
 * Reports, once, control planes of different databases: a history that was left for another one never comes back by itself. After
 * a restore of a backup, a new history stays.
 */
function noteHistory(pushUrl: string, epoch: string): void {
  if (epoch === lastHistory) return;
  const before = histories[lastHistory];
  const isBack = histories[epoch] !== undefined;
  histories[epoch] = pushUrl;
  if (isBack && before !== undefined && !saidHistories) {
    saidHistories = true;
    ngx.log(
      ngx.ERR,
      "sluice: push: the URLs in SLUICE_CONTROL_URL lead to control planes with different databases, so the policies change with each",
      ` connection: the one at ${before} has the history ${lastHistory}, the one at ${pushUrl} has ${epoch}.`,
      " Give all of them the same SLUICE_DATABASE_URL, or name only those of one database",
    );
  }
  lastHistory = epoch;
}

function open(settings: Settings, pushUrl: string): LuaMultiReturn<[WebSocketClient | undefined, string | undefined]> {
  const { gatewayToken, controlUrlGiven } = settings;
  const options = { timeout: connectTimeoutMs, max_payload_len: longestMessageBytes };
  const [socket, failure, status] = dial(pushUrl, options, {
    // The library would write an empty list as an empty line, which ends the headers.
    headers: gatewayToken === undefined ? undefined : [`Authorization: Bearer ${gatewayToken}`],
    ssl_verify: true,
    // A unique pool name: a reused socket of another connection could still carry its frames.
    pool: `sluice-push:${ngx.worker.pid()}:${stopwatchSeconds()}`,
  });
  if (socket === undefined) {
    const why = controlUrlGiven ? "" : " (the default, because SLUICE_CONTROL_URL is not set)";
    return $multi(undefined, `cannot reach the control plane at ${pushUrl}${why}: ${failure}`);
  }
  if (status !== switchingProtocols) {
    socket.close();
    return $multi(undefined, refusalOf(settings, pushUrl, status));
  }
  socket.set_timeout(settings.pushUrls.length === 1 ? silenceTimeoutMs : silenceTimeoutOfSeveralMs);
  return $multi(socket, undefined);
}

function refusalOf({ gatewayToken }: Settings, pushUrl: string, status: string): string {
  const what = gatewayToken === undefined ? ", which has no token" : "'s token";
  const refused = `the control plane at ${pushUrl} refused this gateway${what} (${status})`;
  if (status === "401") {
    return `${refused}: SLUICE_GATEWAY_TOKEN, or the file that SLUICE_GATEWAY_TOKEN_FILE names, must hold the token that the control plane has`;
  }
  if (status === "403") return `${refused}: it is a valid token, but not the one for gateways`;
  if (status === "426") {
    return `${pushUrl} answers 426: the proxy in front of the control plane must pass on the headers Upgrade and Connection, as for any WebSocket`;
  }
  if (status === "503") {
    return `the control plane at ${pushUrl} takes no gateways now (503): it stops, or its database does not answer; its log says why`;
  }
  return `expected the control plane at ${pushUrl}, got HTTP ${status}: SLUICE_CONTROL_URL must be its address`;
}

/**
 * How a connection ended: this worker is no longer the owner; another gateway with the same id took its place; or the connection
 * was lost and has to be opened again.
 */
type End = "resigned" | "replaced" | "lost";

function serve(settings: Settings, socket: WebSocketClient, pushUrl: string): End {
  const outgoing: Outgoing[] = [];
  const wake = semaphoreLibrary.new(0);
  const send = (kind: Outgoing["kind"], data: string) => {
    outgoing.push({ kind, data });
    wake.post(1);
  };
  const say = (message: GatewayMessage) => send("text", wellFormed(cjson.encode(message)));

  setActivityTaken(false);
  // After a takeover, this worker may not have applied yet what its predecessor published.
  catchUp();
  const workers = ngx.worker.count();
  const { epoch, revision, proof, edition } = currentState().position;
  const protocol = protocolVersion;
  const consumers = heldConsumers();
  const held = { epoch, revision, proof, edition, consumers };
  say({ type: "hello", gateway: settings.gatewayId, version, workers, ...held, protocol });

  let closed = false;
  let replaced = false;
  const takeMessage = (pieces: readonly string[]) => {
    // If reading fails because of a defect, the socket must not stay open without a reader.
    const [received, answer] = pcall(receive, settings, pieces, () => !closed);
    if (!received) {
      noteDefect("push", "a message of the control plane was not handled", answer);
      closed = true;
    } else if (answer !== undefined) {
      say(answer as GatewayMessage);
    }
  };

  // Of several snapshots that arrive while one is applied, only the newest is applied next: it includes the ones before it. A delta
  // follows the answer to the message before it; one that comes earlier does not fit, and the gateway says so.
  let newest: readonly string[] | undefined;
  const isWaiting = () => closed || newest !== undefined;
  const runMaintenance = () => {
    const [done, failure] = pcall(maintain, settings, isWaiting);
    if (!done) noteDefect("push", "what is held was not looked after", failure);
  };
  const lookAfterConsumers = () => {
    const [kept, why] = pcall(maintainConsumers, settings, () => !isWaiting() && !ngx.worker.exiting());
    if (!kept) noteDefect("push", "consumers were not looked after", why);
  };
  const arrived = semaphoreLibrary.new(0);
  let isTaking = true;
  const taker = ngx.thread.spawn(() => {
    while (!closed) {
      arrived.wait(turnSeconds);
      const pieces = newest;
      newest = undefined;
      if (pieces !== undefined) takeMessage(pieces);
      else if (!closed) runMaintenance();
      // In each turn: policies that change all the time must not keep the log of consumers from being written anew.
      if (!closed) lookAfterConsumers();
    }
    isTaking = false;
    wake.post(1);
  });

  const read = () => {
    let text = noText();
    let restedAtBytes = 0;
    while (!closed) {
      const [data, kind, failure] = socket.recv_frame();
      if (kind === "text" || kind === "continuation") {
        addPart(text, data ?? "");
        if (text.bytes > longestMessageBytes) closed = true;
        if (failure === "again") postponeCollection();
        // Frames that have already arrived are read without a yield.
        if (text.bytes - restedAtBytes >= mostBytesAtOnce) {
          restedAtBytes = text.bytes;
          rest();
        }
        // A snapshot arrives in many frames, and so may any message that a proxy on the way fragments.
        if (closed || failure === "again") continue;
        const pieces = endText(text);
        text = noText();
        restedAtBytes = 0;
        if (beginsFrame(pieces)) {
          newest = pieces;
          arrived.post(1);
        } else {
          takeMessage(pieces);
        }
      } else if (kind === "ping") send("pong", data ?? "");
      else if (kind === "close") {
        replaced = failure === replacedCode;
        if (!replaced && !ngx.worker.exiting()) {
          noteOutage(controlPlane, `the control plane at ${pushUrl} closed the connection: ${data ?? ""} (${failure})`);
        }
        closed = true;
      } else if (kind !== "pong") {
        if (!ngx.worker.exiting()) noteOutage(controlPlane, `connection to ${pushUrl} lost: ${failure}`);
        closed = true;
      }
    }
  };
  const reader = ngx.thread.spawn(() => {
    const [ended, failure] = pcall(read);
    // The socket must not stay open without a reader.
    closed = true;
    if (!ended) noteDefect("push", "the connection to the control plane was not read any more", failure);
    wake.post(1);
  });

  let owner = true;
  let statusAtSeconds = stopwatchSeconds() + statusEverySeconds;
  while (!closed && owner) {
    wake.wait(turnSeconds);
    owner = renew() && !ngx.worker.exiting();
    setConnected(owner && !closed);
    if (stopwatchSeconds() >= statusAtSeconds) {
      statusAtSeconds = stopwatchSeconds() + statusEverySeconds;
      const status: GatewayMessage = { type: "status", counters: decisionTotals() };
      if (settings.redis !== undefined) status.redis = redisReport();
      if (recentDefects().length > 0) status.errors = defectCounts();
      const warnings = warningsOf(settings);
      if (warnings.length > 0) status.warnings = warnings;
      say(status);
    }
    const answer = lateAnswer();
    if (answer !== undefined) say(answer);
    const lacking = lackingConsumers();
    if (lacking !== undefined) say(lacking);
    const activity = nextActivity();
    if (activity !== undefined) send("text", activity);
    while (!closed && outgoing.length > 0) {
      const { kind, data } = outgoing.shift() as Outgoing;
      const [sent, failure] = kind === "text" ? socket.send_text(data) : socket.send_pong(data);
      if (sent === undefined) {
        noteOutage(controlPlane, `connection to ${pushUrl} lost: ${failure}`);
        closed = true;
      }
    }
  }
  if (!closed) socket.send_close(1001, "");
  closed = true;
  ngx.thread.kill(reader);
  socket.close();
  setConnected(false);
  // It may be in the middle of a change, of which half must not stay in shared memory. It needs a moment, or some seconds for a
  // large snapshot. A worker that ends has no time; another one repairs what it leaves.
  arrived.post(1);
  while (isTaking && !ngx.worker.exiting()) {
    wake.wait(turnSeconds);
    owner = owner && renew();
  }
  ngx.thread.kill(taker);
  if (!owner) return "resigned";
  return replaced ? "replaced" : "lost";
}
