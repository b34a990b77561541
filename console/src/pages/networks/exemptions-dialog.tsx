// Changes whom no policy of the app counts.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api } from "../../api/client.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { useTell } from "../../parts/notices.tsx";
import { useExpectation } from "../../settings/language.tsx";
import { type Exempt, exemptOf, lineOfKey } from "./exemption-lines.ts";

/** How long the answer waits for gateways. */
const wait = "5s";

export function ExemptionsDialog({
  app,
  exempt,
  etag,
  onClose,
}: {
  app: string;
  exempt: Exempt | null;
  etag: string;
  onClose: () => void;
}) {
  const t = useTranslations("networks");
  const inRefusal = useTranslations("refusal");
  const say = useExpectation();
  const tell = useTell();
  const cache = useQueryClient();
  const [original] = useState(() => ({
    networks: (exempt?.cidrs ?? []).join("\n"),
    keys: (exempt?.keys ?? []).map(lineOfKey).join("\n"),
  }));
  const [networks, setNetworks] = useState(original.networks);
  const [keys, setKeys] = useState(original.keys);
  const put = async (changed: Exempt | null, before: string) => {
    const asked = api.PUT("/api/v1/apps/{app}", {
      params: { path: { app }, query: { wait }, header: { "if-match": before } },
      body: { exempt: changed },
    });
    const { applied, warnings = [] } = await answerOf(asked);
    await cache.invalidateQueries({ queryKey: ["apps"] });
    return { applied, warnings, etag: (await asked).response.headers.get("etag") ?? "" };
  };
  const act = async () => {
    const stored = await put(exemptOf(networks, keys), etag);
    const { acked: have = 0, gateways: of = 0 } = stored.applied ?? {};
    const missing = stored.warnings.map(
      ({ path, expected, got }) => ` ${inRefusal("field", { path, expected: say(expected), got: say(got) })}`,
    );
    const undo = async () => void (await put(exempt, stored.etag));
    tell({ text: t("exemptStored", { app, have, of }) + missing.join(""), undo });
  };
  return (
    <Confirmation
      title={t("exemptChangeTitle", { app })}
      action={t("store")}
      isChanged={networks !== original.networks || keys !== original.keys}
      act={act}
      onClose={onClose}
    >
      <p>{t(app === "default" ? "exemptMeansAll" : "exemptMeans")}</p>
      <Field label={t("exemptNetworks")} help={t("exemptNetworksHelp")}>
        {(input) => (
          <textarea
            {...input}
            className="code"
            rows={6}
            spellCheck={false}
            value={networks}
            onChange={(e) => setNetworks(e.target.value)}
          />
        )}
      </Field>
      <Field label={t("exemptKeys")} help={t("exemptKeysHelp")}>
        {(input) => (
          <textarea
            {...input}
            className="code"
            rows={4}
            spellCheck={false}
            value={keys}
            onChange={(e) => setKeys(e.target.value)}
          />
        )}
      </Field>
    </Confirmation>
  );
}
