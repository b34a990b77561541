-- Plays traces on the shared dict of the nginx that runs this, through the gateway's own node store, at the trace's time.

local product = dofile("test/gateway/product.lua")

-- These replacements come before the store is loaded: it reads the time here, and reports its decisions there.
local time = 0
local heard, heardCount = {}, 0
product.module("gateway.src.runtime.clock").nowUs = function()
  return time
end
product.module("limiter.src.compiled.merged-decision").mergeLimit = function(_, _, _, decision)
  local at = heardCount * 6
  heardCount = heardCount + 1
  heard[at + 1] = decision.allowed and 1 or 0
  heard[at + 2] = decision.remaining
  heard[at + 3] = decision.retryAfterUs
  heard[at + 4] = decision.resetAfterUs
  heard[at + 5] = decision.delayUs
end

local store = product.module("gateway.src.stores.node.node-counters")
local cells = product.module("gateway.src.stores.node.counter-cells")
local rates = product.module("limiter.src.algorithms.rate")
local calendars = product.module("limiter.src.algorithms.calendar-window")
local decision = product.module("limiter.src.algorithms.decision").emptyDecision()

return function(trace)
  local policy = { policy = { cost = 1 } }
  local limits = {}
  local chargedAt = {}
  local begun = 0
  local player = {}

  local function follow(window, nowUs)
    local moments = trace.momentsAround(window.windowUs, nowUs)
    window.previousUs, window.startUs, window.endUs, window.nextEndUs = moments[1], moments[2], moments[3], moments[4]
  end

  local function rateOf(limit)
    if limit.algorithm == "calendar-window" then
      return calendars.calendarWindow(limit.quota, limit.windowUs, follow)
    end
    return rates.rateOf(limit)
  end

  local function load(limit, cost)
    local counter = cells.newCellCounter()
    counter.rate = limit.rate
    counter.cost = cost
    counter.key = cells.counterKey(limit, "key")
    cells.loadCounter(counter, time)
    return counter
  end

  function player.begin(newLimits)
    local dict = ngx.shared.sluice_counters
    for _, key in ipairs(dict:get_keys(0)) do
      dict:delete(key)
    end
    -- Every fourth trace runs as with several workers: with locks, and with incr for single fixed windows.
    begun = begun + 1
    store.openNodeStore(begun % 4 == 0 and 2 or 1, 1)
    player.edit(newLimits)
  end

  function player.edit(newLimits)
    limits = {}
    for i, limit in ipairs(newLimits) do
      limits[i] = { name = "limit", rate = rateOf(limit), counterFamily = "family" .. i }
    end
    policy.limits = limits
  end

  function player.ask(nowUs, cost, reported)
    time = nowUs
    policy.policy.cost = cost
    heardCount = 0
    local allowed = store.decideOnNode(policy, limits, "key", {}, chargedAt)
    assert(heardCount == #limits)
    for i = 1, #limits do
      local at = (i - 1) * 6
      for k = at + 1, at + 5 do
        reported[k] = heard[k]
      end
      reported[at + 6] = chargedAt[i]
    end
    return allowed
  end

  function player.peek(nowUs, cost, reported)
    time = nowUs
    for i, limit in ipairs(limits) do
      local counter = load(limit, cost)
      local allowed = rates.admits(limit.rate, counter, cells.cellRing, nowUs, cost)
      rates.describe(limit.rate, counter, cells.cellRing, nowUs, cost, allowed, decision)
      local at = (i - 1) * 6
      reported[at + 1] = decision.allowed and 1 or 0
      reported[at + 2] = decision.remaining
      reported[at + 3] = decision.retryAfterUs
      reported[at + 4] = decision.resetAfterUs
      reported[at + 5] = decision.delayUs
      reported[at + 6] = 0
    end
  end

  function player.refund(nowUs, cost, moments)
    time = nowUs
    policy.policy.cost = cost
    store.refundOnNode(policy, limits, "key", moments)
  end

  function player.renew(nowUs, slots, heldAtUs)
    time = nowUs
    policy.policy.cost = slots
    local renewedAtUs = store.renewOnNode(policy, limits[1], "key", heldAtUs)
    return renewedAtUs or -1
  end

  function player.stored(index, nowUs, into)
    time = nowUs
    local counter = load(limits[index + 1], 1)
    cells.loadRing(counter)
    into[#into + 1] = counter.atUs
    into[#into + 1] = counter.count
    if rates.slides(counter.rate) then
      trace.entriesOf(counter.rate.tickUs, counter, cells.cellRing, into)
    elseif rates.keepsEntries(counter.rate) then
      trace.beginningOf(counter, cells.cellRing, into)
    end
  end

  return player
end
