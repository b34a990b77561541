// Sessions of people in a browser: the cookie, who is signed in by it, its regular change, and the defence against other sites'
// pages, which can make a browser send requests with the cookie.

import cookie from "@fastify/cookie";
import type { FastifyReply, FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import type { Transaction } from "kysely";
import type { SessionLimits } from "../configuration.ts";
import { ApiError } from "../errors/api-error.ts";
import { type Caller, ownerOf as ownerOfTurns } from "../rights/caller.ts";
import {
  cookieValue,
  csrfTokenOf,
  hashBits,
  isSame,
  newSession,
  nextBits,
  type Presented,
  parseCookieValue,
} from "../sessions/session-secret.ts";
import { findCaller, findMember, type TokenRefusal } from "../storage/callers.ts";
import { DatabaseBusy, DatabaseUnreachable, DatabaseUnwritable } from "../storage/engines/database-errors.ts";
import { onBehalfOf } from "../storage/engines/turns.ts";
import {
  endSession,
  type NewSession,
  noteSessionUse,
  readSession,
  readSessions,
  rotateSession,
  type StoredSession,
} from "../storage/sessions.ts";
import { appOf } from "../storage/sign-in.ts";
import type { Database, Tables } from "../storage/tables.ts";

/** How often the secret changes while the session is used. */
const rotateEveryMs = 15 * 60_000;

/** How long the secret before is accepted after the present one has come back: for requests that were on their way. */
const graceMs = 60_000;

/** How often the time of the last use is stored. */
const noteEveryMs = 60_000;

/** Of the paths that routes have. */
const mostPathNames = 6;

const name = "sluice-session";
const nameWithTls = `__Host-${name}`;
const cookiesOfAny = new RegExp(`(?:^|;)\\s*${name}=([^;]*)`, "g");
const cookiesOfTls = new RegExp(`(?:^|;)\\s*${nameWithTls}=([^;]*)`, "g");
/** Of one of these names. Others can set one for each path and each domain, and browsers may send ours as the last. */
const mostCookies = 64;

/** Why a session's cookie does not identify anybody. */
export type SessionRefusal = "ended" | "stolen" | "several" | TokenRefusal;

/** How the request is identified, if it is by a session. */
export interface Session {
  readonly id: string;
  readonly signedInBy: "token" | "openid";
  readonly startedAtMs: number;
  readonly endsAtMs: number;
  /** When it ends if it is not used. */
  readonly idleEndsAtMs: number;
  readonly csrfToken: string;
}

export interface Sessions {
  /** Makes a session, and sets its cookie when `store` has stored it. @param store returns when the session ends */
  begin(reply: FastifyReply, store: (session: NewSession) => Promise<number>): Promise<Session>;
  /** Returns how the limits of requests know the sessions whose cookies came with the request. */
  credentialsOf(request: FastifyRequest): string[];
  /** @returns undefined if no session's cookie came with the request */
  identify(request: FastifyRequest, reply: FastifyReply): Promise<Caller | SessionRefusal | undefined>;
  /** Identifies whose session this is now, without noting a use of it. */
  identifyAgain(session: Session, from: Database | Transaction<Tables>): Promise<Caller | SessionRefusal>;
  /** Ends the session whose cookie came with a sign-in, if there is one. */
  endFormer(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** Ends the session of the request, if it has one. */
  end(request: FastifyRequest, reply: FastifyReply, caller: Caller): Promise<void>;
  /** Whether cookies are only for TLS. */
  isSecure(request: FastifyRequest): boolean;
}

declare module "fastify" {
  interface FastifyInstance {
    readonly sessions: Sessions;
  }
  interface FastifyRequest {
    /** Undefined if the request is not identified by a session's cookie. */
    session: Session | undefined;
  }
}

interface SessionsOptions {
  readonly now: () => number;
  readonly limits: SessionLimits;
  /** The origin at which browsers see the control plane, if the operator has set it. */
  readonly publicOrigin: string | undefined;
}

export default fp<SessionsOptions>(
  async (app, { now, limits, publicOrigin }) => {
    await app.register(cookie);
    app.decorateRequest("session", undefined);

    const isSecure = (request: FastifyRequest) =>
      request.protocol === "https" || publicOrigin?.startsWith("https:") === true;
    // The prefix keeps other hosts of the domain, and pages without TLS, from setting the cookie.
    const nameFor = (request: FastifyRequest) => (isSecure(request) ? nameWithTls : name);
    const attributesFor = (request: FastifyRequest) =>
      ({ path: "/", httpOnly: true, sameSite: "strict", secure: isSecure(request) }) as const;

    function setCookie(reply: FastifyReply, presented: Presented, endsAtMs: number): void {
      const maxAge = Math.max(0, Math.floor((endsAtMs - now()) / 1_000));
      const { request } = reply;
      reply.setCookie(nameFor(request), cookieValue(presented), { ...attributesFor(request), maxAge });
    }

    function clearCookie(request: FastifyRequest, reply: FastifyReply): void {
      reply.clearCookie(nameFor(request), attributesFor(request));
      clearOthers(request, reply);
    }

    /** Takes back cookies of the same name that are not ours: those with another path, which browsers send before ours. */
    function clearOthers(request: FastifyRequest, reply: FastifyReply): void {
      // Nobody can set others with the prefix.
      if (isSecure(request)) return;
      const names = request.url
        .replace(/\?.*$/, "")
        .split("/")
        .slice(1, 1 + mostPathNames);
      for (const place of names.keys()) {
        const path = `/${names.slice(0, place + 1).join("/")}`;
        for (const one of [path, `${path}/`]) {
          reply.clearCookie(nameFor(request), { ...attributesFor(request), path: one });
        }
      }
    }

    /**
     * Another program on this host, at another port, or a page without TLS can set a cookie of this name too. The parser of cookies keeps
     * the first alone.
     */
    function valuesFrom(request: FastifyRequest): string[] {
      // This comes before the request's turn, so eight thousand other cookies must cost nothing.
      const cookies = isSecure(request) ? cookiesOfTls : cookiesOfAny;
      const values = (request.headers.cookie ?? "").matchAll(cookies).map(([, value = ""]) => value.trim());
      return [...new Set(values.take(mostCookies))];
    }

    function credentialsFrom(values: readonly string[]): string[] {
      return values.map((value) => credentialOf(parseCookieValue(value)?.id ?? value));
    }

    async function identify(
      request: FastifyRequest,
      reply: FastifyReply,
    ): Promise<Caller | SessionRefusal | undefined> {
      const values = valuesFrom(request);
      const credentials = credentialsFrom(values);
      const [first] = credentials;
      if (first === undefined) return undefined;
      const credential = credentials.find((one) => app.requestLimits.ownersOf(one) !== undefined) ?? first;
      const found = await app.requestLimits.signIn(
        credential,
        request,
        reply,
        () => find(values, request, reply),
        // Whatever else came with the request, a session has one counter.
        () => (request.session === undefined ? credential : credentialOf(request.session.id)),
      );
      if (typeof found === "string") clearCookie(request, reply);
      else if (values.length > 1) clearOthers(request, reply);
      return found;
    }

    async function find(
      values: readonly string[],
      request: FastifyRequest,
      reply: FastifyReply,
    ): Promise<Caller | SessionRefusal> {
      const nowMs = now();
      const all = values.map(parseCookieValue).filter((one) => one !== undefined);
      const known = await readSessions(app.database, [...new Set(all.map(({ id }) => id))]);
      let refusal: SessionRefusal = "ended";
      const valid: { stored: StoredSession; presented: Presented; isPresent: boolean; owner: Caller }[] = [];
      for (const presented of all) {
        const stored = known.get(presented.id);
        if (stored === undefined || isOver(stored, nowMs)) continue;
        const hash = hashBits(presented.bits);
        const isPresent = isSame(hash, stored.hash);
        const owner = await ownerOf(stored, nowMs);
        if (!isPresent && !isInGrace(stored, hash, nowMs)) {
          const who = typeof owner === "string" ? "unknown" : owner.who;
          const what = { action: "end-session", app: typeof owner === "string" ? "" : appOf(owner) } as const;
          const origin = { who, atMs: nowMs, from: request.address };
          await endSession(app.database, origin, stored.id, { ...what, reason: "an old secret was used" });
          refusal = "stolen";
        } else if (typeof owner === "string") refusal = owner;
        else valid.push({ stored, presented, isPresent, owner });
      }
      const [found] = valid;
      if (found === undefined) return refusal;
      // Only one can be of a sign-in here, and nobody can tell which: somebody may want another person to work in their session.
      if (valid.length > 1) return "several";
      const { stored, presented, isPresent, owner } = found;
      if (stored.token !== undefined) app.noteTokenUse(stored.token);
      if (isPresent) await onBehalfOf.run(ownerOfTurns(owner), () => keep(stored, presented, reply, nowMs));
      else setCookie(reply, { id: stored.id, bits: nextBits(stored.key, presented.bits) }, stored.endsAtMs);
      request.session = sessionFrom(stored, nowMs);
      return owner;
    }

    function isOver({ endsAtMs, usedAtMs }: StoredSession, nowMs: number): boolean {
      return endsAtMs <= nowMs || usedAtMs + limits.idleMs <= nowMs;
    }

    /** The answer with the new secret may be lost, so the former one is accepted until the new one has come back. */
    function isInGrace({ formerHash, confirmedAtMs }: StoredSession, hash: string, nowMs: number): boolean {
      if (formerHash === undefined || !isSame(hash, formerHash)) return false;
      return confirmedAtMs === undefined || nowMs < confirmedAtMs + graceMs;
    }

    async function ownerOf(
      { token, member }: StoredSession,
      nowMs: number,
      from: Database | Transaction<Tables> = app.database,
    ): Promise<Caller | TokenRefusal> {
      const rights = { nowMs, groups: app.groupMapping };
      if (token !== undefined) return findCaller(from, { id: token }, rights);
      // All sessions of a member count as one caller, as all uses of a token do.
      return findMember(from, `member/${member}`, member ?? "", rights);
    }

    /** Changes the secret if it is time, and notes the use. If nothing can be written now, the session goes on as it is. */
    async function keep(
      stored: StoredSession,
      presented: Presented,
      reply: FastifyReply,
      nowMs: number,
    ): Promise<void> {
      if (app.storageHealth.state !== "ok") return;
      const isDue = stored.rotatedAtMs + rotateEveryMs <= nowMs;
      const confirms = stored.confirmedAtMs === undefined;
      try {
        if (isDue) {
          const bits = nextBits(stored.key, presented.bits);
          await rotateSession(app.database, stored, hashBits(bits), nowMs);
          setCookie(reply, { id: stored.id, bits }, stored.endsAtMs);
        } else if (confirms || stored.usedAtMs + noteEveryMs <= nowMs) {
          await noteSessionUse(app.database, stored, confirms, nowMs);
        }
      } catch (error) {
        if (!isPassing(error)) throw error;
        const what = "cannot store the use of a session; trying again at its next request";
        app.minuteLog.say("warn", what, { err: error }, what);
      }
    }

    async function end(request: FastifyRequest, reply: FastifyReply, caller: Caller): Promise<void> {
      clearCookie(request, reply);
      if (request.session === undefined) return;
      const origin = { who: caller.who, atMs: now(), from: request.address };
      await endSession(app.database, origin, request.session.id, { action: "sign-out", app: appOf(caller) });
    }

    function sessionFrom(stored: StoredSession, usedAtMs: number): Session {
      return {
        id: stored.id,
        signedInBy: stored.token === undefined ? "openid" : "token",
        startedAtMs: stored.createdAtMs,
        endsAtMs: stored.endsAtMs,
        idleEndsAtMs: Math.min(stored.endsAtMs, usedAtMs + limits.idleMs),
        csrfToken: csrfTokenOf(stored.key),
      };
    }

    app.decorate("sessions", {
      isSecure,
      credentialsOf: (request) => credentialsFrom(valuesFrom(request)),
      identify,
      async identifyAgain({ id }, from) {
        const stored = await readSession(from, id);
        const nowMs = now();
        return stored === undefined || isOver(stored, nowMs) ? "ended" : ownerOf(stored, nowMs, from);
      },
      async begin(reply, store) {
        const { id, bits, key } = newSession();
        const nowMs = now();
        const endsAtMs = await store({ id, hash: hashBits(bits), key, endsAtMs: nowMs + limits.lastMs });
        setCookie(reply, { id, bits }, endsAtMs);
        const stored = await readSession(app.database, id);
        if (stored === undefined) throw new ApiError("unauthorized", "The session has ended already.");
        return sessionFrom(stored, nowMs);
      },
      async endFormer(request, reply) {
        const values = valuesFrom(request);
        if (values.length === 0) return;
        // No limit counts this, because one has counted the token: an old cookie must keep nobody from signing in.
        const owner = await find(values, request, reply);
        if (typeof owner !== "string") await end(request, reply, owner);
        clearOthers(request, reply);
      },
      end,
    });
  },
  { name: "sessions", dependencies: ["database", "minute-log", "request-limits", "token-uses", "groups"] },
);

/** How the limits of requests know a session. */
function credentialOf(id: string): string {
  return `session/${id}`;
}

function isPassing(error: unknown): boolean {
  return error instanceof DatabaseUnwritable || error instanceof DatabaseUnreachable || error instanceof DatabaseBusy;
}
