// Signs somebody in by a token, or sends them to the OpenID provider.

import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { type FormEvent, useId, useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api, noteSession, RequestError } from "../../api/client.ts";
import { sessionQuery } from "../../api/queries.ts";

const route = getRouteApi("/sign-in");
const afterwards = "/overview";

export function SignInPage() {
  const t = useTranslations("signIn");
  const id = useId();
  const { to = afterwards } = route.useSearch();
  const cache = useQueryClient();
  const router = useRouter();
  const [isAsking, setIsAsking] = useState(false);
  const [refusal, setRefusal] = useState<string>();

  const signIn = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const token = String(new FormData(form).get("token") ?? "").trim();
    if (token === "") return setRefusal(t("noToken"));
    setIsAsking(true);
    try {
      const session = await answerOf(api.POST("/api/v1/session", { body: { token } as never }));
      form.reset();
      cache.clear();
      noteSession(session);
      cache.setQueryData(sessionQuery.queryKey, session);
      router.history.push(to);
    } catch (error) {
      const known = error instanceof RequestError ? error : undefined;
      setRefusal(known?.problem?.detail ?? t("noAnswer"));
      setIsAsking(false);
    }
  };

  return (
    <main className="alone">
      <form className="sign-in" onSubmit={(event) => void signIn(event)} noValidate>
        <h1>
          <img src="/icon.svg" alt="" width={32} height={32} /> Sluice
        </h1>
        <label htmlFor={id}>{t("token")}</label>
        <input
          id={id}
          name="token"
          type="password"
          autoComplete="current-password"
          aria-describedby={`${id}-help`}
          aria-invalid={refusal !== undefined}
        />
        <p id={`${id}-help`} className="quiet">
          {t("whichToken")}
        </p>
        <p role="alert" className="fault">
          {refusal}
        </p>
        <button type="submit" className="main" disabled={isAsking}>
          {t("signIn")}
        </button>
        {hasOpenId() ? (
          <a className="button" href={`/api/v1/session/oidc?${new URLSearchParams({ returnTo: to })}`}>
            {t("openId")}
          </a>
        ) : null}
      </form>
    </main>
  );
}

/** The control plane says so in the page, because nobody is signed in yet who could ask. */
function hasOpenId(): boolean {
  return document.querySelector('meta[name="sluice-openid"]') !== null;
}
