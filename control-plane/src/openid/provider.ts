// The OpenID provider by which people sign in: authorization code flow with PKCE, state and nonce. The provider is asked for its
// metadata at the first sign-in, not at the start, and again when that failed or is old.

import {
  AuthorizationResponseError,
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type ClientAuth,
  ClientError,
  ClientSecretBasic,
  ClientSecretPost,
  type Configuration,
  calculatePKCECodeChallenge,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
  type IDToken,
  ResponseBodyError,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
  type UserInfoResponse,
} from "openid-client";
import type { OpenIdConfiguration } from "../configuration.ts";
import { SignInFailure } from "./sign-in-failure.ts";

const timeoutSeconds = 10;
const metadataHoldMs = 3_600_000;
const mostReasonCharacters = 300;
const mostSubjectBytes = 255;

/** What the answer of the provider is checked against. Only the browser that began the sign-in has it. */
export interface Checks {
  readonly state: string;
  readonly nonce: string;
  /** The PKCE code verifier. */
  readonly verifier: string;
}

/** Somebody whom the provider has identified. */
export interface Identified {
  readonly issuer: string;
  readonly subject: string;
  /** A member's name, made from the claims. */
  readonly name: string;
  /** As the provider says them. */
  readonly groups: readonly string[];
}

export class OpenIdProvider {
  readonly #configuration: OpenIdConfiguration;
  readonly #now: () => number;
  #client: { readonly found: Promise<Configuration>; readonly atMs: number } | undefined;

  constructor(configuration: OpenIdConfiguration, now: () => number) {
    this.#configuration = configuration;
    this.#now = now;
  }

  /** @returns where to send the browser. @throws SignInFailure sign-in-unavailable */
  async begin(): Promise<{ url: URL; checks: Checks }> {
    const client = await this.#discover();
    const checks = { state: randomState(), nonce: randomNonce(), verifier: randomPKCECodeVerifier() };
    const url = buildAuthorizationUrl(client, {
      redirect_uri: this.#configuration.redirectUri,
      scope: this.#configuration.scopes,
      state: checks.state,
      nonce: checks.nonce,
      code_challenge: await calculatePKCECodeChallenge(checks.verifier),
      code_challenge_method: "S256",
    });
    return { url, checks };
  }

  /**
   * Exchanges the code, and checks the id token: its signature, issuer, audience, client, nonce, times and subject.
   *
   * @param query of the URL to which the provider has sent the browser
   * @throws SignInFailure sign-in-failed, sign-in-unavailable
   */
  async complete(query: string, checks: Checks): Promise<Identified> {
    const client = await this.#discover();
    const { clientId, redirectUri, groupsClaim } = this.#configuration;
    try {
      const answer = await authorizationCodeGrant(client, new URL(`${redirectUri}?${query}`), {
        pkceCodeVerifier: checks.verifier,
        expectedState: checks.state,
        expectedNonce: checks.nonce,
        idTokenExpected: true,
      });
      const token = answer.claims();
      if (token === undefined) throw new ClientError("no id token came");
      if (!isStorable(token.sub))
        throw new ClientError("the subject is empty, has control characters, or more than 255 bytes");
      if (token.azp !== undefined && token.azp !== clientId)
        throw new ClientError("the id token is for another client");
      let claims: IDToken | UserInfoResponse = token;
      if (claims[groupsClaim] === undefined && client.serverMetadata().userinfo_endpoint !== undefined) {
        claims = { ...token, ...(await fetchUserInfo(client, answer.access_token, token.sub)) };
      }
      return {
        issuer: token.iss,
        subject: token.sub,
        name: memberNameFrom(claims),
        groups: groupsFrom(claims[groupsClaim]),
      };
    } catch (error) {
      throw failureFrom(error);
    }
  }

  #discover(): Promise<Configuration> {
    const nowMs = this.#now();
    if (this.#client === undefined || nowMs >= this.#client.atMs + metadataHoldMs) {
      const found = this.#ask();
      const client = { found, atMs: nowMs };
      this.#client = client;
      // The next sign-in tries again.
      found.catch(() => {
        if (this.#client === client) this.#client = undefined;
      });
    }
    return this.#client.found;
  }

  async #ask(): Promise<Configuration> {
    const { issuer, clientId, clientSecret } = this.#configuration;
    try {
      // The configuration takes http only for a provider on this machine.
      const execute = [enableNonRepudiationChecks, ...(issuer.startsWith("http:") ? [allowInsecureRequests] : [])];
      const options = { execute, timeout: timeoutSeconds };
      return await discovery(new URL(issuer), clientId, clientSecret, authenticationBy(clientSecret), options);
    } catch (error) {
      const reason = reasonOf(error);
      throw new SignInFailure(
        "sign-in-unavailable",
        "The OpenID provider does not answer as one. Try again later, or sign in by a token.",
        `discovery: ${reason}`,
      );
    }
  }
}

/** The secret goes in a header, as every provider takes it, unless this one says that it does not. */
function authenticationBy(clientSecret: string): ClientAuth {
  const [basic, post] = [ClientSecretBasic(clientSecret), ClientSecretPost(clientSecret)];
  return (server, client, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    return (methods.includes("client_secret_basic") ? basic : post)(server, client, body, headers);
  };
}

function failureFrom(error: unknown): SignInFailure {
  const reason = reasonOf(error);
  if (isUnanswered(error)) {
    return new SignInFailure(
      "sign-in-unavailable",
      "The OpenID provider does not answer. Try again later, or sign in by a token.",
      reason,
    );
  }
  return new SignInFailure("sign-in-failed", `The sign-in was not completed: ${reason}. Begin again.`, reason);
}

function isUnanswered(error: unknown): boolean {
  if (error instanceof ResponseBodyError) return error.status >= 500;
  if (error instanceof ClientError) {
    const { cause } = error;
    return error.code === "OAUTH_TIMEOUT" || (cause instanceof Response && cause.status >= 500);
  }
  // What fetch throws when it gets no answer.
  return error instanceof TypeError && error.message === "fetch failed";
}

/** Returns what went wrong in one line, without anything of the provider's answer but its error code and description. */
function reasonOf(error: unknown): string {
  if (error instanceof AuthorizationResponseError || error instanceof ResponseBodyError) {
    const description = error.error_description === undefined ? "" : ` (${error.error_description})`;
    return plain(`the provider answered ${error.error}${description}`);
  }
  if (!(error instanceof Error)) return "unknown";
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return plain(`${error.message}${cause}`);
}

function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ").slice(0, mostReasonCharacters);
}

/** OpenID Connect has subjects of at most 255 ASCII characters; not every database stores others as they are. */
function isStorable(subject: string): boolean {
  return subject !== "" && Buffer.byteLength(subject) <= mostSubjectBytes && !/\p{Cc}/u.test(subject);
}

/** Names must have the shape of a member's; other characters become dashes. */
function memberNameFrom(claims: IDToken | UserInfoResponse): string {
  const given = [claims["preferred_username"], claims["email"], claims.sub].find(
    (claim): claim is string => typeof claim === "string" && claim !== "",
  );
  return (given ?? claims.sub)
    .toLowerCase()
    .replace(/[^a-z0-9._@+-]/g, "-")
    .replace(/^[^a-z0-9]+/, "")
    .padEnd(1, "0")
    .slice(0, 100);
}

function groupsFrom(claim: unknown): string[] {
  return [claim].flat().filter((one): one is string => typeof one === "string");
}
