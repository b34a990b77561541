-- A worker with one lease whose record and units a spec writes, and whose decisions it asks for one by one.

local support = require("test.gateway.virtual.support")

local leaseSupport = {}

-- Fields of a record whose units may be spent for 300 ms, of a key that is much in use.
local function inUse(nowUs, name)
  return {
    name = name,
    seq = 1,
    acknowledged = 1,
    sentUs = nowUs,
    deadlineUs = nowUs + 300000,
    durationUs = 300300,
    demand = 50,
    estimatedUs = nowUs,
    clientsAtUs = nowUs,
    resetAtUs = nowUs + 5000000,
    remaining = 70,
  }
end

-- `options.limit`, `more` (fields of the policy), and those of a world.
function leaseSupport.world(options)
  options = options or {}
  local limit = options.limit or support.fixed("100/1h")
  local policies = { support.policy("a", limit, support.with({ consistency = "leased" }, options.more or {})) }
  local world = support.world(support.with({ policies = policies }, options.world or {}))
  local worker = world.workers[1]
  local function load(name)
    return worker.module("gateway.src.stores.lease." .. name)
  end
  local self = { world = world, worker = worker, limit = limit }
  self.admit, self.cells, self.exchange = load("admit"), load("lease-cells"), load("exchange")
  self.leases, self.spend, self.store, self.watch = load("leases"), load("spend"), load("lease-store").leaseStore, load("watch")
  self.policy = worker.module("gateway.src.snapshot.current").policiesOf("shop").a
  self.counters, self.locks = world.dict("sluice_counters"), world.dict("sluice_locks")
  local merging = worker.module("limiter.src.compiled.merged-decision")

  function self.nowUs()
    return worker.stopwatchUs()
  end

  function self.of(keyValues, number)
    local module = number and world.workers[number].module("gateway.src.stores.lease.leases") or self.leases
    return module.leaseOf(self.policy, keyValues or "k")
  end

  self.lease = self.of("k")

  -- Writes the record as another worker would, with these fields beside those of a lease in use, and the units in its cell.
  function self.write(fields, units, lease)
    lease = lease or self.lease
    local record = self.cells.newRecord("other")
    for _, each in ipairs({ inUse(self.nowUs(), fields.name or lease.record.name), fields }) do
      for name, value in pairs(each) do
        record[name] = value
      end
    end
    if units then
      record.out = fields.out or units
      self.cells.thaw(self.cells.cellOf(lease.id, record.name), units)
    end
    self.cells.saveRecord(lease.id, record)
  end

  -- The same, and this worker has read it.
  function self.put(fields, units, lease)
    self.write(fields, units, lease)
    self.leases.refresh(lease or self.lease)
  end

  function self.units(lease)
    return self.cells.unitsIn((lease or self.lease).cell)
  end

  function self.record(lease)
    local record = self.cells.newRecord("reader")
    local found = self.cells.loadRecord((lease or self.lease).id, record)
    return found and record or nil
  end

  -- The same policy at another cost.
  function self.atCost(cost)
    local document = setmetatable({ cost = cost }, { __index = self.policy.policy })
    return setmetatable({ policy = document }, { __index = self.policy })
  end

  function self.newOutcome()
    return { merged = merging.newMergedDecision(), charges = {} }
  end

  -- A check that `decide(check, outcome)` decides in a turn of its own, where it may wait. `done` says that it has ended.
  function self.check(decide, fields)
    local check = { policy = self.policy, keyValues = "k", chargedAt = {}, separate = false, degraded = false }
    for name, value in pairs(fields or {}) do
      check[name] = value
    end
    local result = { check = check, outcome = self.newOutcome(), beganUs = world.clock.nowUs }
    worker.call(function()
      result.allowed = decide(check, result.outcome)
      result.done, result.tookUs = true, world.clock.nowUs - result.beganUs
    end)
    return result
  end

  function self.ask(fields)
    return self.check(self.admit.admitLeased, fields)
  end

  -- The request of this result goes on.
  function self.goOn(result)
    self.worker.call(function()
      for _, charge in ipairs(result.outcome.charges) do
        self.spend.spendForGood(charge, charge.spent)
      end
    end)
    return result
  end

  -- Units that may still be refunded.
  function self.undecided()
    return self.cells.undecidedIn(self.cells.termOf(self.lease.cell, self.lease.record))
  end

  function self.calls()
    return world.redis.count("lease"), world.redis.count("charge_leased")
  end

  -- Another worker holds the claim, so that nobody exchanges.
  function self.claimForOther(seconds, lease)
    assert(self.locks:safe_add((lease or self.lease).id, "other 1", seconds or 100))
  end

  function self.release(lease)
    self.locks:delete((lease or self.lease).id)
  end

  return self
end

return leaseSupport
