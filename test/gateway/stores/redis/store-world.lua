-- A worker at a Redis, whose modules of gateway/src/stores/redis/ a spec calls by themselves.

local assert = require("luassert")
local support = require("test.gateway.virtual.support")

local day = support.fixed("5000/1d")

-- The policies are policy "a" of 5,000 a day unless `options` has others.
return function(options)
  options = options or {}
  local world = support.world(support.with({ policies = options.policies or { support.policy("a", day) } }, options.world or {}))
  local worker = world.workers[1]
  local function load(name)
    return worker.module("gateway.src.stores.redis." .. name)
  end
  local self = { world = world, worker = worker, load = load }
  self.refunds, self.store, self.replies = load("refunds"), load("exact-store").exactStore, load("replies")
  self.admitTogether = load("exact-store").admitTogether
  self.settings = worker.module("gateway.src.redis.redis-settings").theRedis()
  local merging = worker.module("limiter.src.compiled.merged-decision")

  function self.policy(name)
    return worker.module("gateway.src.snapshot.current").policiesOf("shop")[name or "a"]
  end

  function self.merged()
    return merging.newMergedDecision()
  end

  function self.check(name, keyValues, fields)
    local check = { policy = self.policy(name), keyValues = keyValues or "1:k", chargedAt = {}, separate = false, degraded = false }
    for field, value in pairs(fields or {}) do
      check[field] = value
    end
    return check
  end

  -- Runs in a turn, where it may wait.
  function self.call(work)
    local result = { beganUs = world.clock.nowUs }
    worker.call(function()
      result.value = work()
      result.done, result.tookMs = true, (world.clock.nowUs - result.beganUs) / 1000
    end)
    return result
  end

  -- Charges of so many keys, "1:k1" and so on, as Redis has made them.
  function self.charge(count, name)
    local outcome = { merged = self.merged(), charges = {} }
    for i = 1, count do
      self.call(function()
        self.admitTogether({ self.check(name, "1:k" .. i) }, outcome)
      end)
    end
    world.run(30)
    assert.equal(count, #outcome.charges)
    world.redis.calls = {}
    return outcome.charges
  end

  function self.used(key, name, limit)
    return support.used(world, name or "a", limit or day, key or "k1")
  end

  function self.refund(charges)
    return self.call(function()
      self.store.refund(charges)
    end)
  end

  -- The number of round trips from now on.
  function self.watchTrips()
    local trips = { count = 0 }
    world.redis.fate = function(commands)
      if commands[1][1] == "evalsha" then
        trips.count = trips.count + 1
      end
    end
    return trips
  end

  -- The refunds that are to be tried again.
  function self.postponed()
    return worker.inner("gateway.src.stores.redis.refunds", "postponed")
  end

  -- Runs `work` while nginx has no timer to give.
  function self.withoutTimers(work)
    local at = worker.ngx.timer.at
    worker.ngx.timer.at = function()
      return nil, "too many pending timers"
    end
    work()
    worker.ngx.timer.at = at
  end

  return self
end
