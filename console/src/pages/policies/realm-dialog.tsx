// Changes which hosts and paths the policies of an app may match, and where they may redirect to.

import { useState } from "react";
import { useTranslations } from "use-intl";
import type { ListedApp } from "../../api/queries.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { linesOf } from "../../parts/lines.ts";
import { useAppChange } from "../../parts/use-app-change.ts";

const fields = ["hosts", "paths", "redirects"] as const;

export function RealmDialog({
  app,
  realm,
  mayUndo,
  etag,
  onClose,
}: {
  app: string;
  /** Null: the app has none. */
  realm: ListedApp["realm"];
  mayUndo: boolean;
  etag: string;
  onClose: () => void;
}) {
  const t = useTranslations("realm");
  const change = useAppChange(app, etag);
  const [before] = useState(realm);
  const [original] = useState(() => textsOf(realm));
  const [texts, setTexts] = useState(original);
  const act = () => {
    const undoing = mayUndo ? { realm: before } : undefined;
    return change({ realm: realmOf(texts) }, undoing, (taken) => t("stored", { app, ...taken }));
  };
  return (
    <Confirmation
      title={t("changeTitle", { app })}
      action={t("store")}
      isChanged={fields.some((field) => texts[field] !== original[field])}
      act={act}
      onClose={onClose}
    >
      <p>{t("means")}</p>
      {fields.map((field) => (
        <Field key={field} label={t(`fields.${field}`)} help={t(`help.${field}`)}>
          {(input) => (
            <textarea
              {...input}
              className="code"
              rows={3}
              spellCheck={false}
              value={texts[field]}
              onChange={(e) => setTexts({ ...texts, [field]: e.target.value })}
            />
          )}
        </Field>
      ))}
    </Confirmation>
  );
}

type Texts = Readonly<Record<(typeof fields)[number], string>>;

function textsOf(realm: ListedApp["realm"]): Texts {
  const { hosts = [], paths = [], redirects = [] } = realm ?? {};
  return { hosts: hosts.join("\n"), paths: paths.join("\n"), redirects: redirects.join("\n") };
}

/** A field without a line is left out: every host, or every path. */
function realmOf(texts: Texts): NonNullable<ListedApp["realm"]> {
  const filled = fields.filter((field) => linesOf(texts[field]).length > 0);
  return Object.fromEntries(filled.map((field) => [field, linesOf(texts[field])]));
}
