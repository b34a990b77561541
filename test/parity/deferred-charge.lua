-- Plays the lives that deferred-charge.test.ts sends by the chargeDeferred script: a line of JSON per life, five numbers per step.

local cjson = require("cjson")
local product = require("test.gateway.product")

local redis = product.newRedis()

for _, steps in ipairs(cjson.decode(io.read("*a"))) do
  redis.keys = {}
  local reported = {}
  for i, step in ipairs(steps) do
    redis.nowUs = step.nowUs
    local argv = product.scriptArguments(step.limit, step.units)
    if step.moments then
      argv[1], argv[4] = "calendar-window", string.format("%.0f %.0f %.0f %.0f", unpack(step.moments))
    end
    local reply = redis.run("charge_deferred", { "c", "c:debt" }, argv)
    local numbers = {}
    for at, number in ipairs(reply) do
      numbers[at] = string.format("%.0f", number)
    end
    reported[i] = "[" .. table.concat(numbers, ",") .. "]"
  end
  print("[" .. table.concat(reported, ",") .. "]")
end
