// How far the gateways are with a revision, while they take it.

import { useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { fleetQuery } from "../../../api/queries.ts";
import { useExpectation } from "../../../settings/language.tsx";

const askEveryMs = 400;

export function Applied({ revision }: { revision: number }) {
  const t = useTranslations("editor");
  const say = useExpectation();
  const { data: fleet } = useQuery({
    ...fleetQuery,
    refetchInterval: ({ state }) => {
      const connected = state.data?.gateways.filter((one) => one.connected) ?? [];
      return connected.every((one) => one.revision >= revision) ? 2_000 : askEveryMs;
    },
  });
  const connected = fleet?.gateways.filter((gateway) => gateway.connected) ?? [];
  const have = connected.filter((gateway) => gateway.revision >= revision).length;
  const refused = connected.filter((gateway) => gateway.refused !== null && gateway.refused.revision >= revision);
  return (
    <div role="status" className="applied">
      <p>
        {connected.length === 0
          ? t("noGateway", { revision: String(revision) })
          : t("applied", { revision: String(revision), have, of: connected.length })}
      </p>
      {connected.length === 0 ? null : <progress value={have} max={connected.length} aria-label={t("progress")} />}
      {refused.map(({ id, refused: refusal }) => (
        <p key={id} className="bad">
          {t("gatewayRefused", { gateway: id, reason: say(refusal?.errors[0]?.expected ?? "") })}
        </p>
      ))}
    </div>
  );
}
