// Asks for a token, and signs in by it.

import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useId, useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api, noteSignIn, RequestError } from "../../api/client.ts";
import { type Session, sessionQuery } from "../../api/queries.ts";

/**
 * @param props.children what else there is to do
 * @param props.onSignedIn is called before the session is known to other parts of the page
 */
export function SignInForm({
  heading,
  onSignedIn,
  children,
}: {
  heading: ReactNode;
  onSignedIn: (session: Session) => void;
  children?: ReactNode;
}) {
  const t = useTranslations("signIn");
  const id = useId();
  const cache = useQueryClient();
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
      noteSignIn(session);
      onSignedIn(session);
      cache.setQueryData(sessionQuery.queryKey, session);
    } catch (error) {
      const known = error instanceof RequestError ? error : undefined;
      setRefusal(known?.problem?.detail ?? t("noAnswer"));
      setIsAsking(false);
    }
  };

  return (
    <form className="sign-in" onSubmit={(event) => void signIn(event)} noValidate>
      {heading}
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
      {children}
    </form>
  );
}

/** The control plane says so in the page, because nobody is signed in yet who could ask. */
export function hasOpenId(): boolean {
  return document.querySelector('meta[name="sluice-openid"]') !== null;
}
