// Chooses a policy of an app by name: one types a part of it, and the browser offers what has it.

import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { useTranslations } from "use-intl";
import type { StoredPolicy } from "../api/policy-terms.ts";
import { policiesQuery } from "../api/queries.ts";

/** More would make the list slow, and nobody reads so far: typing more shortens it. */
const mostOffered = 100;

export function PolicyChoice({
  app,
  policy,
  onChoose,
  label,
  isOffered = () => true,
}: {
  app: string;
  policy: string;
  onChoose: (policy: string) => void;
  /** Absent: "Policy". */
  label?: string;
  isOffered?: (policy: StoredPolicy) => boolean;
}) {
  const t = useTranslations("apps");
  const id = useId();
  const { data: policies = [] } = useQuery(policiesQuery(app));
  const offered = policies
    .filter(({ name, document }) => name.includes(policy) && isOffered(document))
    .slice(0, mostOffered);
  return (
    <div className="field">
      <label htmlFor={id}>{label ?? t("policy")}</label>
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
