// Chooses a policy of an app by name: one types a part of it, and the browser offers what has it.

import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { useTranslations } from "use-intl";
import { policiesQuery } from "../api/queries.ts";

/** More would make the list slow, and nobody reads so far: typing more shortens it. */
const mostOffered = 100;

export function PolicyChoice({
  app,
  policy,
  onChoose,
}: {
  app: string;
  policy: string;
  onChoose: (policy: string) => void;
}) {
  const t = useTranslations("apps");
  const id = useId();
  const { data: policies = [] } = useQuery(policiesQuery(app));
  const offered = policies.filter(({ name }) => name.includes(policy)).slice(0, mostOffered);
  return (
    <div className="field">
      <label htmlFor={id}>{t("policy")}</label>
      <input
        id={id}
        type="search"
        list={`${id}-names`}
        autoComplete="off"
        value={policy}
        onChange={(e) => onChoose(e.target.value)}
      />
      <datalist id={`${id}-names`}>
        {offered.map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </div>
  );
}
