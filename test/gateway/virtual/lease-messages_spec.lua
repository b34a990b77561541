-- gateway/src/stores/lease/lease-messages.ts and leases.ts: what is not a reply to a lease's message, and the names under which Redis knows leases.

local support = require("test.gateway.virtual.support")
local leaseWorld = require("test.gateway.virtual.lease-support").world

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
