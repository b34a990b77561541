-- Plays the lives that deferred-charge.test.ts sends on the shared dict of the nginx that runs this, through the gateway's own
-- node store, at their time: a line of JSON per life, five numbers per step. Nothing yields, so nothing expires meanwhile.

local cjson = require("cjson")
local product = dofile("test/gateway/product.lua")

-- These replacements come before the store is loaded: it reads the time here, and reports its decisions there.
local time = 0
product.module("gateway.src.runtime.clock").nowUs = function()
  return time
end
local reported
local beyond = 0
product.module("limiter.src.compiled.merged-decision").mergeLimit = function(_, _, _, decision)
  local numbers = { decision.allowed and 1 or 0, decision.remaining, decision.retryAfterUs, decision.resetAfterUs, beyond }
  for i, number in ipairs(numbers) do
    numbers[i] = string.format("%.0f", number)
  end
  reported[#reported + 1] = "[" .. table.concat(numbers, ",") .. "]"
end

local deferred = product.module("gateway.src.stores.node.deferred-charge")
local rateOf = product.module("limiter.src.algorithms.rate").rateOf
local calendarWindow = product.module("limiter.src.algorithms.calendar-window").calendarWindow

local function rateAt(step)
  if not step.moments then
    return rateOf(step.limit)
  end
  return calendarWindow(step.limit.quota, step.limit.windowUs, function(window)
    window.previousUs, window.startUs, window.endUs, window.nextEndUs = unpack(step.moments)
  end)
end

ngx.req.read_body()
for life, steps in ipairs(cjson.decode(ngx.req.get_body_data())) do
  reported = {}
  local limits = { { name = "limit", counterFamily = "family" .. life } }
  local policy = { limits = limits }
  for _, step in ipairs(steps) do
    time = step.nowUs
    limits[1].rate = rateAt(step)
    beyond = step.units > 0 and deferred.chargeDeferredOnNode(policy, limits, "key", step.units) or 0
    deferred.admitDeferredOnNode(policy, limits, "key", {})
  end
  ngx.say("[" .. table.concat(reported, ",") .. "]")
end
