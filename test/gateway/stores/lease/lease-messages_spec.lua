-- gateway/src/stores/lease/lease-messages.ts and leases.ts: what is not a reply to a lease's message, and the names under which Redis knows leases.

local support = require("test.gateway.virtual.support")
local leaseWorld = require("test.gateway.stores.lease.lease-support").world

local function look(self)
  self.worker.call(function()
    self.exchange.look(self.lease)
  end)
  self.world.run(20)
end

-- Has Redis run another script of ours in place of this one.
local function withScript(self, name, other, work)
  local script = self.worker.inner("gateway.src.stores.lease.lease-messages", name)
  local scripts = dofile("gateway/dist/sluice_redis_scripts.lua")
  local sha1 = script.sha1
  script.sha1 = scripts[other].sha1
  work()
  script.sha1 = sha1
end

describe("a lease's message", function()
  it("that is answered by anything else has no reply: the lease lives on, and the log tells", function()
    -- A list of numbers, a text of numbers, and a number.
    for _, other in ipairs({ "peek", "charge_fixed_window", "refund" }) do
      local self = leaseWorld()
      self.put({ deadlineUs = 0 }, 0)
      local name = self.record().name
      withScript(self, "leaseScript", other, function()
        look(self)
      end)
      assert.same({ name, 1, 1 }, { self.record().name, self.record().lost, self.record().waiting }, other)
      assert.equal(1, #self.world.logged("a lease was not renewed"), other)
    end
  end)

  it("without a reply is told in the log with what failed", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0 }, 0)
    self.world.redis.error = "LOADING Redis is loading the dataset in memory"
    look(self)
    assert.equal(1, #self.world.logged("a lease was not renewed: LOADING"))
  end)

  it("names the first of limits that have the same left", function()
    local limits = { support.fixed("60/1h"), support.fixed("60/1m") }
    limits[1].name, limits[2].name = "hour", "minute"
    local self = leaseWorld({ more = { limits = limits } })
    self.put({ deadlineUs = 0, mostRestrictive = 1 }, 0)
    look(self)
    assert.equal(0, self.record().mostRestrictive)
  end)
end)

describe("an exact decision of a leased policy", function()
  it("that is answered by anything else is not made, and may have been charged", function()
    local self = leaseWorld()
    withScript(self, "chargeLeased", "refund", function()
      local result = self.ask()
      self.world.run(10)
      assert.same({ true, nil }, { result.done, result.allowed })
      local unanswered = result.check.unanswered
      assert.same({ false, true, false, nil }, { unanswered.abandoned, unanswered.lost, unanswered.reconciled, unanswered.owed })
    end)
    assert.equal(1, #self.world.logged("Redis did not decide"))
  end)
end)

describe("the name of a lease's life", function()
  it("has the gateway's, a part by chance, the worker's process and the moment", function()
    local self = leaseWorld()
    assert.is_truthy(self.lease.record.name:find("^g1:%x%x%x%x%x%x%x%x:%d+%-%x+$"), self.lease.record.name)
    local other = leaseWorld({ world = { environment = { SLUICE_GATEWAY_ID = "another" } } })
    assert.is_truthy(other.lease.record.name:find("^another:%x+:"), other.lease.record.name)
  end)
end)

describe("a lease that another worker has filled", function()
  it("is found without Redis by a request of a key that is little used, in the same life or another", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0, demand = 0 })
    self.write({ acknowledged = 2, demand = 0 }, 10)
    local result = self.ask()
    assert.same({ true, true }, { result.done, result.allowed })
    self.put({ deadlineUs = 0, demand = 0, acknowledged = 2 }, 0)
    self.write({ name = "another", acknowledged = 2, demand = 0 }, 10)
    result = self.ask()
    assert.same({ true, true }, { result.done, result.allowed })
    assert.same({ 0, 0 }, { self.calls() })
  end)

  it("has no units where their cell is gone", function()
    local self = leaseWorld()
    self.put({ lost = 1 }, 10)
    self.counters:delete(self.lease.cell)
    local result = self.ask()
    assert.same({ true, nil }, { result.done, result.allowed })
    assert.same({}, self.world.errors)
  end)
end)

describe("units that requests took from leases", function()
  it("are counted, and no longer when they went back", function()
    local self = leaseWorld()
    local function admitted()
      self.world.run(3000)
      return self.world.dict("sluice_metrics"):get("lease-admitted")
    end
    self.put({}, 10)
    local charge = self.ask({ policy = self.atCost(3) }).outcome.charges[1]
    self.ask()
    self.worker.call(function()
      self.store.refund({ charge })
      self.exchange.look(self.lease)
    end)
    assert.equal(1, admitted())
  end)
end)

describe("the watcher of leases", function()
  local function watched()
    local self = leaseWorld()
    self.put({ demand = 5, plenty = 1 }, 5)
    self.worker.call(function()
      self.watch.lookAndWatch(self.lease)
    end)
    return self
  end

  -- How many timers were begun at once by `work`; without any where `refused`.
  local function timersBegun(self, work, refused)
    local at, count = self.worker.ngx.timer.at, 0
    self.worker.ngx.timer.at = function(seconds, ...)
      count = count + (seconds == 0 and 1 or 0)
      if refused then
        return nil, "too many pending timers"
      end
      return at(seconds, ...)
    end
    self.worker.call(work)
    self.worker.ngx.timer.at = at
    return count
  end

  it("looks at each lease once in 5 ms, and says nothing of it", function()
    local self = watched()
    self.worker.call(function()
      self.watch.lookAndWatch(self.lease)
      self.watch.lookAndWatch(self.lease)
    end)
    local dict, claims = self.worker.ngx.shared.sluice_locks, 0
    local add = dict.safe_add
    dict.safe_add = function(...)
      claims = claims + 1
      return add(...)
    end
    self.world.run(100)
    assert.is_true(claims >= 16 and claims <= 22, tostring(claims))
    assert.same({}, self.world.log)
  end)

  it("tells in the log what failed", function()
    local self = watched()
    self.world.run(1)
    local id = self.lease.id
    self.lease.id = false
    self.world.run(5)
    self.lease.id = id
    assert.is_truthy(self.world.logged("a lease was not checked")[1].text:find("a key of a dict is a text", 1, true))
  end)

  it("ends when there is nothing to watch, and is not begun for nothing", function()
    local self = leaseWorld()
    local timers = self.worker.runningTimers
    assert.equal(0, timersBegun(self, function()
      self.watch.keepWatching(self.nowUs())
    end))
    self.put({ demand = 5, plenty = 1 }, 5)
    self.worker.call(function()
      self.watch.lookAndWatch(self.lease)
    end)
    self.world.run(2)
    assert.equal(timers + 1, self.worker.runningTimers)
    self.put({ demand = 0, out = 0, deadlineUs = 0 }, 0)
    self.world.run(20)
    assert.equal(timers, self.worker.runningTimers)
  end)

  it("is begun by the next who asks where no timer could be had", function()
    local self = leaseWorld()
    self.put({ demand = 5, plenty = 1 }, 5)
    assert.equal(1, timersBegun(self, function()
      self.watch.lookAndWatch(self.lease)
    end, true))
    self.world.run(1)
    assert.equal(1, timersBegun(self, function()
      self.watch.keepWatching(self.nowUs())
    end))
    assert.equal(0, timersBegun(self, function()
      self.watch.keepWatching(self.nowUs())
    end))
  end)

  it("begins the count of exchanges anew", function()
    local self = leaseWorld()
    for i = 1, 100 do
      local lease = self.of("k" .. i)
      self.put({ deadlineUs = 0 }, nil, lease)
      self.worker.call(function()
        self.exchange.look(lease)
      end)
    end
    self.world.run(100)
    assert.is_false(self.exchange.hasRoom())
    self.put({ demand = 5, plenty = 1 }, 5)
    self.worker.call(function()
      self.watch.lookAndWatch(self.lease)
    end)
    self.world.run(10)
    assert.is_true(self.exchange.hasRoom())
  end)

  it("leaves a lease of other limits alone that has taken the place of one", function()
    local self = watched()
    self.world.run(1)
    self.worker.call(self.watch.forgetLeases)
    local limits = { setmetatable({ rate = setmetatable({ quota = 90 }, { __index = self.policy.limits[1].rate }) }, { __index = self.policy.limits[1] }) }
    local other = self.leases.leaseOf(setmetatable({ limits = limits }, { __index = self.policy }), "k")
    assert.are_not.equal(self.lease.id, other.id)
    self.put({ demand = 5, plenty = 1 }, 5, other)
    self.world.run(20)
    assert.same({ false, false }, { self.lease.watched, other.watched })
  end)
end)
