// The session has ended while somebody works: they sign in again over the page, on which everything stays as it is.

import { useQueryClient } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { sessionQuery } from "../api/queries.ts";
import { hasOpenId, SignInForm } from "../pages/sign-in/sign-in-form.tsx";
import { Dialog } from "../parts/dialog.tsx";

export function SessionEnded({ onLater }: { onLater: () => void }) {
  const t = useTranslations("signIn");
  const cache = useQueryClient();
  // What was asked for meanwhile was refused.
  const again = () => void cache.invalidateQueries();
  return (
    <Dialog title={t("ended")} onClose={onLater}>
      <SignInForm heading={<p>{t("endedMeans")}</p>} onSignedIn={again}>
        {hasOpenId() ? (
          <>
            {/* In a tab of its own, so that this page stays. */}
            <a className="button" href="/api/v1/session/oidc?returnTo=/overview" target="_blank" rel="noreferrer">
              {t("openIdElsewhere")}
            </a>
            <button type="button" onClick={() => void cache.invalidateQueries({ queryKey: sessionQuery.queryKey })}>
              {t("didSignIn")}
            </button>
          </>
        ) : null}
        <button type="button" onClick={onLater}>
          {t("later")}
        </button>
      </SignInForm>
    </Dialog>
  );
}
