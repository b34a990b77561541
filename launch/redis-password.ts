// `node launch/redis-password.ts DIRECTORY`: makes a password for the Redis of docker-compose.yml, unless there is one. It
// writes two files: `password`, and `redis.conf` with the user of this password, who may do what Sluice needs (docs/cluster.md), and no
// other user. Everybody who may enter the directory may read them: Redis runs as another user than its clients, and only they use the
// volume.
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { keepFile } from "./kept-file.ts";
import { fail, SetupError } from "./step.mjs";

/** As the control plane needs them, which include those of a gateway. */
const rights =
  "~sluice:* &sluice:changes:* +script|load +evalsha +eval +time +get +getrange +set +setrange +pexpire +del +select +publish +subscribe";

try {
  const [directory] = process.argv.slice(2);
  if (directory === undefined) throw new SetupError("redis-password: expected a directory, got nothing");
  const file = join(directory, "password");
  const password = existsSync(file) ? readFileSync(file, "utf8").trim() : randomBytes(32).toString("base64url");
  keepFile(file, `${password}\n`);
  // This file comes last, because Redis waits for it.
  keepFile(join(directory, "redis.conf"), `user default off resetpass\nuser sluice on >${password} ${rights}\n`);
} catch (error) {
  fail(error);
}
