// Signs somebody in by a token, or sends them to the OpenID provider.

import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { hasOpenId, SignInForm } from "./sign-in-form.tsx";

const route = getRouteApi("/sign-in");
const afterwards = "/overview";

export function SignInPage() {
  const t = useTranslations("signIn");
  const { to = afterwards } = route.useSearch();
  const cache = useQueryClient();
  const router = useRouter();
  return (
    <main className="alone">
      <SignInForm
        heading={
          <h1>
            <img src="/icon.svg" alt="" width={32} height={32} /> Sluice
          </h1>
        }
        onSignedIn={() => {
          cache.clear();
          router.history.push(to);
        }}
      >
        {hasOpenId() ? (
          <a className="button" href={`/api/v1/session/oidc?${new URLSearchParams({ returnTo: to })}`}>
            {t("openId")}
          </a>
        ) : null}
      </SignInForm>
    </main>
  );
}
