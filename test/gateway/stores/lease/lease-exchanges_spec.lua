-- gateway/src/stores/lease/: exchange.ts, watch.ts, leases.ts, lease-cells.ts and lease-messages.ts by themselves. When a message is sent,
-- what it says, what its reply changes, who looks after a lease, and what a worker remembers of it.

local product = require("test.gateway.product")
local support = require("test.gateway.virtual.support")
local leaseWorld = require("test.gateway.stores.lease.lease-support").world

local function look(self, lease)
  local watches
  self.worker.call(function()
    watches = self.exchange.look(lease or self.lease)
  end)
  return watches
end

-- The messages that Redis was sent, each by its numbers.
local function messages(self)
  local all = {}
  for _, call in ipairs(self.world.redis.calls) do
    if call.name == "lease" then
      local argv = call.argv
      local numbers = {}
      for i = 2, 8 do
        numbers[i - 1] = tonumber(argv[i])
      end
      all[#all + 1] = {
        name = argv[1], seq = numbers[1], acknowledged = numbers[2], kept = numbers[3], back = numbers[4], want = numbers[5],
        horizonUs = numbers[6], lifetimeUs = numbers[7], key = call.keys[1], atUs = call.atUs, keys = call.keys, argv = argv,
      }
    end
  end
  return all
end

local function metric(self, name)
  return self.world.dict("sluice_metrics"):get(name) or 0
end

-- How often the record was written since.
local function writes(self)
  local count = 0
  local dict = self.worker.ngx.shared.sluice_counters
  local set = dict.safe_set
  dict.safe_set = function(view, key, ...)
    if key == self.lease.id then
      count = count + 1
    end
    return set(view, key, ...)
  end
  return function()
    return count
  end
end

describe("a look at a lease", function()
  it("sends a message for the units that clients are expected to ask for, and takes the reply", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0, seq = 4, acknowledged = 4, plenty = 0 }, 0)
    local atUs = self.nowUs()
    assert.is_true(look(self))
    assert.same({ 1, 5 }, { self.record().waiting, self.record().seq })
    self.world.run(1)
    local sent = messages(self)
    assert.equal(1, #sent)
    assert.same(
      { self.lease.record.name, 5, 4, 0, 0, 50, 100000, 300000 },
      { sent[1].name, sent[1].seq, sent[1].acknowledged, sent[1].kept, sent[1].back, sent[1].want, sent[1].horizonUs, sent[1].lifetimeUs }
    )
    local record = self.record()
    assert.same({ 0, 5, 50, 0, 1, 0 }, { record.waiting, record.acknowledged, record.out, record.lost, record.plenty, record.mostRestrictive })
    assert.equal(50, self.units())
    assert.equal(50, record.remaining)
    assert.equal(atUs + 299700, record.deadlineUs)
    assert.is_true(record.resetAtUs > atUs and record.resetAtUs <= atUs + 3600000000)
    assert.is_nil(self.locks:get(self.lease.id))
  end)

  it("counts what was granted, spent, returned and expired", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0 }, 0)
    look(self)
    self.world.run(1)
    for _ = 1, 8 do
      assert.is_true(self.goOn(self.ask()).allowed)
    end
    self.world.run(20)
    look(self)
    -- Nobody asks any more: what is left goes back.
    self.world.run(250)
    look(self)
    self.world.run(1)
    assert.same({ 42, 0 }, { messages(self)[2].back, messages(self)[2].kept })
    assert.equal(92, (self.world.redis.peek(messages(self)[1].keys[2], product.limitOf(self.limit))))
    self.world.run(3000)
    assert.same({ 50, 8, 42, 0 }, {
      metric(self, "lease-units:granted"),
      metric(self, "lease-units:spent"),
      metric(self, "lease-units:returned"),
      metric(self, "lease-units:expired"),
    })
    assert.same({ 2, 1, 0 }, { metric(self, "lease-event:exchanges"), metric(self, "lease-event:grants"), metric(self, "lease-event:lost") })
  end)

  it("keeps what is left when it asks for more", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0 }, 0)
    look(self)
    self.world.run(1)
    for _ = 1, 40 do
      self.goOn(self.ask())
    end
    self.world.run(20)
    look(self)
    self.world.run(1)
    local second = messages(self)[2]
    assert.equal(10, second.kept)
    local units = self.units()
    assert.is_true(units > 10)
    assert.equal(units, self.record().out)
    self.world.run(3000)
    assert.same({ 50 + units - 10, 40, 0, 0 }, {
      metric(self, "lease-units:granted"),
      metric(self, "lease-units:spent"),
      metric(self, "lease-units:returned"),
      metric(self, "lease-units:expired"),
    })
  end)

  it("leaves a lease alone that another worker has claimed, but reads its record", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0 }, 0)
    self.claimForOther()
    self.lease.asked, self.lease.lookedUs = 7, 0
    self.write({ remaining = 33 })
    self.lease.worthWatching = true
    assert.is_false(look(self))
    assert.equal(33, self.lease.record.remaining)
    assert.equal(7, self.lease.asked)
    assert.equal(self.nowUs(), self.lease.lookedUs)
    self.world.run(5)
    assert.equal(0, #messages(self))
  end)

  it("begins another life under a name that was never used, with no units, and what was known of the clients", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0, demand = 50, askedBefore = 3 }, 9)
    local before = self.lease.record.name
    self.counters:delete(self.lease.id)
    local estimatedUs = self.lease.record.estimatedUs
    self.lease.asked = 3
    self.world.run(1)
    look(self)
    local record = self.record()
    assert.are_not.equal(before, record.name)
    assert.equal(1, record.seq)
    assert.equal(self.lease.id .. ":" .. record.name, self.lease.cell)
    assert.equal(0, self.counters:get(self.lease.cell))
    assert.same({ 50, 3, estimatedUs }, { record.demand, record.askedBefore, record.estimatedUs })
    self.world.run(1)
    assert.equal(1, #messages(self))
  end)

  it("begins no life while memory is scarce", function()
    local self = leaseWorld({ world = { sizes = { sluice_counters = 1048576 } } })
    self.lease.worthWatching = true
    for i = 1, 60 do
      self.counters:set("filled" .. i, ("x"):rep(14000))
    end
    assert.is_false(look(self))
    assert.is_nil(self.record())
    assert.is_nil(self.locks:get(self.lease.id))
  end)

  it("takes a count of what is asked for that is smaller than before for no demand: it was lost, or some was taken back", function()
    local self = leaseWorld()
    self.put({ askedBefore = 1000, demand = 0, out = 0 }, 0)
    self.lease.asked = 20
    look(self)
    assert.same({ 0, 20 }, { self.record().demand, self.record().askedBefore })
    assert.equal(0, self.lease.asked)
  end)

  it("is worth another while there are units, and not where there is nothing to spend or to ask for", function()
    local self = leaseWorld()
    self.put({ demand = 5, plenty = 1 }, 5)
    assert.is_true(look(self))
    assert.equal(0, #messages(self))
    self.put({ deadlineUs = 0, demand = 0 }, 0)
    assert.is_false(look(self))
    assert.is_nil(self.locks:get(self.lease.id))
  end)

  it("asks for no units that would expire because each request needs more than a lease brings", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0, demand = 50 }, 0)
    self.lease.cost = 26
    assert.is_false(look(self))
    self.lease.cost = 25
    assert.is_true(look(self))
    self.world.run(1)
    assert.equal(1, #messages(self))
  end)

  it("writes the record where something has changed, and otherwise not", function()
    local self = leaseWorld()
    -- Nothing is due: Redis has refused units.
    local function quiet(fields, units)
      local all = { refusedUntilUs = self.nowUs() + 9000000, retryAtUs = self.nowUs() + 9000000 }
      for name, value in pairs(fields) do
        all[name] = value
      end
      self.put(all, units)
      self.counters:set(self.lease.id .. ":asked", 0)
    end
    quiet({ demand = 5 }, 5)
    local count = writes(self)
    look(self)
    assert.equal(0, count())
    -- Only the demand.
    quiet({ demand = 5 }, 5)
    self.lease.asked = 6
    local before = count()
    look(self)
    assert.same({ 1, 6 }, { count() - before, self.record().demand })
    -- Only the moment of the estimate.
    quiet({ demand = 5, estimatedUs = self.nowUs() - 100000, sentUs = self.nowUs() }, 5)
    self.lease.asked = 5
    before = count()
    look(self)
    assert.same({ 1, 5, self.nowUs() }, { count() - before, self.record().demand, self.record().estimatedUs })
    -- Only the units, which have expired.
    quiet({ demand = 5, deadlineUs = self.nowUs() }, 5)
    before = count()
    look(self)
    assert.same({ 1, 0 }, { count() - before, self.record().out })
    assert.equal(0, #messages(self))
  end)

  it("takes out units that have expired, and counts them", function()
    local self = leaseWorld()
    local refused = { refusedUntilUs = self.nowUs() + 9000000, demand = 5, deadlineUs = self.nowUs(), out = 10 }
    self.put(refused, 4)
    look(self)
    assert.same({ 0, 0 }, { self.units(), self.record().out })
    self.world.run(3000)
    assert.same({ 4, 6 }, { metric(self, "lease-units:expired"), metric(self, "lease-units:spent") })
    -- Of a cell that was overdrawn, nothing has expired.
    refused.refusedUntilUs, refused.deadlineUs = self.nowUs() + 9000000, self.nowUs()
    self.put(refused, -3)
    look(self)
    assert.same({ -3, 0 }, { self.units(), self.record().out })
    self.world.run(3000)
    assert.same({ 4, 16 }, { metric(self, "lease-units:expired"), metric(self, "lease-units:spent") })
    -- Units of a lease that lives stay, and so do those that are counted already.
    self.put({ demand = 50, plenty = 1 }, 50)
    look(self)
    assert.same({ 50, 50 }, { self.units(), self.record().out })
    self.put({ refusedUntilUs = self.nowUs() + 9000000, demand = 5, deadlineUs = self.nowUs(), out = 0 }, 4)
    look(self)
    assert.equal(4, self.units())
  end)
end)

describe("a message whose sender was killed", function()
  local function pending(self, fields)
    local nowUs = self.nowUs()
    self.put(support.with({ deadlineUs = 0, waiting = 1, seq = 9, want = 50, sentUs = nowUs, triedUs = nowUs }, fields or {}), 0)
  end

  it("is sent again, the same, 42 ms after it was last sent, and no sooner", function()
    local self = leaseWorld()
    pending(self)
    self.world.run(41.999)
    look(self)
    self.world.run(0.001)
    assert.equal(0, #messages(self))
    assert.is_nil(self.locks:get(self.lease.id))
    look(self)
    self.world.run(1)
    assert.same({ 1, 9, 50 }, { #messages(self), messages(self)[1].seq, messages(self)[1].want })
    assert.same({ 0, 9, 50 }, { self.record().waiting, self.record().acknowledged, self.units() })
  end)

  it("is given up after a lease's life, and another is sent", function()
    local self = leaseWorld()
    pending(self, { sentUs = self.nowUs() - 299999, triedUs = self.nowUs(), plenty = 1 })
    look(self)
    assert.equal(9, self.record().seq)
    pending(self, { sentUs = self.nowUs() - 300000, triedUs = self.nowUs(), plenty = 1 })
    look(self)
    assert.same({ 10, 0 }, { self.record().seq, self.record().plenty })
    self.world.run(1)
    assert.equal(10, messages(self)[1].seq)
  end)

  it("is given up also where nothing is asked for any more", function()
    local self = leaseWorld()
    pending(self, { sentUs = self.nowUs() - 300000, demand = 0 })
    look(self)
    assert.same({ 9, 0 }, { self.record().seq, self.record().waiting })
  end)

  it("is claimed for 1.3 s at most", function()
    local self = leaseWorld({ world = { workers = 2 } })
    self.put({ deadlineUs = 0 }, 0)
    self.world.redis.stop()
    look(self)
    self.worker.kill()
    self.world.run(1290)
    assert.is_string(self.locks:get(self.lease.id))
    self.world.run(20)
    assert.is_nil(self.locks:get(self.lease.id))
  end)
end)

describe("an exchange", function()
  local function begun(options)
    local self = leaseWorld(options)
    self.put({ deadlineUs = 0 }, 0)
    return self
  end

  it("is tried twice, and then Redis is away: the record says so, and the log", function()
    local self = begun()
    local sent = 0
    self.world.redis.fate = function(commands)
      sent = sent + (commands[1][1] == "evalsha" and 1 or 0)
      return { loses = "reply" }
    end
    look(self)
    self.world.run(100)
    assert.equal(2, sent)
    local record = self.record()
    assert.same({ 1, 1, 2 }, { record.lost, record.waiting, record.seq })
    assert.is_true(record.triedUs > record.sentUs)
    assert.equal(1, #self.world.logged("a lease was not renewed"))
    assert.is_nil(self.locks:get(self.lease.id))
    self.world.run(3000)
    assert.same({ 2, 2 }, { metric(self, "lease-event:exchanges"), metric(self, "lease-event:lost") })
  end)

  it("goes on when its second message is answered", function()
    local self = begun()
    local sent = 0
    self.world.redis.fate = function()
      sent = sent + 1
      return sent == 1 and { loses = "reply" } or nil
    end
    look(self)
    self.world.run(100)
    assert.same({ 2, 2, 0, 50 }, { sent, #messages(self), self.record().lost, self.units() })
    assert.equal(messages(self)[1].seq, messages(self)[2].seq)
    self.world.run(3000)
    assert.same({ 2, 1, 1 }, { metric(self, "lease-event:exchanges"), metric(self, "lease-event:grants"), metric(self, "lease-event:lost") })
  end)

  it("is not begun without a timer: the claim is free, and the log tells", function()
    local self = begun()
    local at = self.worker.ngx.timer.at
    self.worker.ngx.timer.at = function()
      return nil, "too many pending timers"
    end
    look(self)
    self.worker.ngx.timer.at = at
    assert.equal(1, #self.world.logged("a lease was not renewed: too many pending timers"))
    assert.is_nil(self.locks:get(self.lease.id))
    self.world.run(10)
    assert.equal(0, #messages(self))
  end)

  it("that fails in itself leaves neither a claim nor somebody who waits", function()
    local self = begun()
    local policy = self.lease.policy
    look(self)
    self.lease.policy = nil
    self.world.run(10)
    assert.equal(1, #self.world.logged("a lease was not renewed"))
    assert.is_nil(self.locks:get(self.lease.id))
    assert.same({}, self.world.errors)
    self.lease.policy = policy
  end)

  it("says nothing in the log where all went well", function()
    local self = begun()
    look(self)
    self.world.run(10)
    assert.same({}, self.world.logged("a lease was not renewed"))
  end)

  it("drops a reply after 1.17 s, when its claim may be another's soon", function()
    local self = begun()
    self.world.redis.upUs = 5000
    look(self)
    self.world.run(1)
    self.worker.block(1180000)
    self.world.run(1250)
    assert.equal(1, #messages(self))
    assert.same({ 1, 1 }, { self.record().waiting, self.record().acknowledged })
    assert.equal(0, self.units())
  end)

  it("drops a reply, and leaves the claim, where another worker has claimed the lease meanwhile", function()
    local self = begun()
    self.world.redis.upUs = 5000
    look(self)
    self.world.run(1)
    self.release()
    self.claimForOther()
    self.world.run(20)
    assert.equal(1, #messages(self))
    assert.equal(1, self.record().waiting)
    assert.equal("other 1", self.locks:get(self.lease.id))
  end)

  it("drops a reply where the record is gone, or belongs to another life", function()
    local self = begun()
    self.world.redis.upUs = 5000
    look(self)
    self.world.run(1)
    self.counters:delete(self.lease.id)
    self.world.run(20)
    assert.is_nil(self.record())
    self.put({ deadlineUs = 0 }, 0)
    look(self)
    self.world.run(1)
    self.write({ name = "another", waiting = 1, seq = 2, deadlineUs = 0 }, 0)
    self.world.run(20)
    assert.same({ "another", 1 }, { self.record().name, self.record().waiting })
  end)

  it("drops the record where a later message has used its name, so that another life begins", function()
    local self = begun()
    look(self)
    self.world.run(10)
    local name = self.record().name
    self.put({ deadlineUs = 0, seq = 0, acknowledged = 0 }, 0)
    look(self)
    self.world.run(10)
    assert.is_nil(self.record())
    assert.same({}, self.world.logged("a lease was not renewed"))
    self.world.run(250)
    look(self)
    assert.are_not.equal(name, self.record().name)
  end)

  it("drops the record where there is no memory for the units", function()
    local self = begun()
    local dict = self.worker.ngx.shared.sluice_counters
    local set = dict.safe_set
    dict.safe_set = function(view, key, ...)
      if key == self.lease.cell then
        return nil, "no memory"
      end
      return set(view, key, ...)
    end
    look(self)
    self.world.run(10)
    assert.equal(1, #messages(self))
    assert.is_nil(self.record())
  end)

  it("is one of a hundred at most, and makes room when it ends", function()
    local self = leaseWorld()
    for round = 1, 2 do
      for i = 1, 100 do
        local lease = self.of(("k%d-%d"):format(round, i))
        self.put({ deadlineUs = 0 }, nil, lease)
        look(self, lease)
        assert.equal(i < 100, self.exchange.hasRoom())
      end
      local lease = self.of("more" .. round)
      self.put({ deadlineUs = 0, demand = 51 }, nil, lease)
      look(self, lease)
      assert.equal(0, self.record(lease).waiting)
      self.put({ deadlineUs = 0, waiting = 1, triedUs = 0 }, nil, lease)
      look(self, lease)
      assert.is_nil(self.locks:get(lease.id))
      self.exchange.forgetBegun()
      assert.is_true(self.exchange.hasRoom())
      self.world.run(100)
      assert.is_true(self.exchange.hasRoom())
    end
  end)

  it("counts those that run though the watcher forgets those that were begun", function()
    local self = leaseWorld()
    self.world.redis.stop()
    for i = 1, 100 do
      local lease = self.of("k" .. i)
      self.put({ deadlineUs = 0 }, nil, lease)
      look(self, lease)
    end
    self.world.run(1)
    self.exchange.forgetBegun()
    assert.is_false(self.exchange.hasRoom())
    self.world.redis.go()
    self.world.run(1000)
    assert.is_true(self.exchange.hasRoom())
  end)

  it("keeps no more units than the ledger honours", function()
    local self = begun()
    look(self)
    self.world.run(10)
    assert.equal(50, self.units())
    -- The ledger was lost with all of Redis.
    self.world.redis.flush()
    self.put({ name = self.record().name, seq = 2, acknowledged = 2, demand = 60, deadlineUs = self.nowUs() + 40000, durationUs = 300000, out = 50 }, 20)
    self.world.run(1)
    look(self)
    self.world.run(10)
    assert.same({ 3, 20 }, { messages(self)[2].seq, messages(self)[2].kept })
    local record = self.record()
    assert.equal(record.out, self.units())
    assert.is_true(self.units() <= 60, tostring(self.units()))
    self.world.run(3000)
    local spent, expired = metric(self, "lease-units:spent"), metric(self, "lease-units:expired")
    assert.equal(50, spent + expired)
    assert.is_true(spent >= 30)
  end)

  it("takes the names and numbers of all limits, and the limit that has the least", function()
    local limits = { support.fixed("500/1h"), support.fixed("60/1m"), support.fixed("200/1m") }
    for i, limit in ipairs(limits) do
      limit.name = "l" .. i
    end
    local self = leaseWorld({ more = { limits = limits } })
    self.put({ deadlineUs = 0 }, 0)
    look(self)
    self.world.run(10)
    local sent = messages(self)[1]
    assert.equal(4, #sent.keys)
    assert.same({ "fixed-window", "500", "3600000000" }, { sent.argv[9], sent.argv[10], sent.argv[11] })
    assert.same({ 1, 60 - self.units() }, { self.record().mostRestrictive, self.record().remaining })
  end)
end)

describe("the records of leases", function()
  it("are the same in every worker that reads them", function()
    local self = leaseWorld({ world = { workers = 2 } })
    local record, count = self.cells.newRecord("g"), 0
    for name, value in pairs(record) do
      if type(value) == "number" then
        count = count + 1
        record[name] = 1000 + count
      end
    end
    assert.is_true(self.cells.saveRecord("lease:x", record))
    local cells = self.world.workers[2].module("gateway.src.stores.lease.lease-cells")
    local read = cells.newRecord("other")
    assert.is_true(cells.loadRecord("lease:x", read))
    assert.equal(24, count)
    assert.same(record, read)
    assert.is_false(cells.loadRecord("lease:y", read))
    cells.dropRecord("lease:x")
    assert.is_false(cells.loadRecord("lease:x", read))
  end)

  it("are forgotten after a minute in which nobody wrote them, and their units after ten", function()
    local self = leaseWorld()
    self.put({}, 10)
    self.cells.addAsked(self.lease.id, 3)
    self.world.run(59900)
    assert.is_table(self.record())
    self.world.run(200)
    assert.is_nil(self.record())
    self.world.run(539000)
    assert.equal(10, self.units())
    assert.equal(5, self.cells.addAsked(self.lease.id, 2))
    self.world.run(1000)
    assert.equal(0, self.units())
  end)

  it("have names that were never used", function()
    local self = leaseWorld({ world = { workers = 2 } })
    local other = self.world.workers[2].module("gateway.src.stores.lease.lease-cells")
    local one = self.cells.newRecord("g").name
    assert.are_not.equal(one, other.newRecord("g").name)
    self.world.run(0.001)
    assert.are_not.equal(one, self.cells.newRecord("g").name)
    assert.is_nil(one:find(" "))
  end)

  it("can be told that there is no memory for them", function()
    local self = leaseWorld({ world = { sizes = { sluice_counters = 1048576 } } })
    for i = 1, 500 do
      self.counters:safe_set("filled" .. i, ("x"):rep(14000))
    end
    for i = 1, 500 do
      self.counters:safe_set("small" .. i, ("x"):rep(100))
    end
    for i = 1, 9000 do
      self.counters:safe_set("tiny" .. i, 1)
    end
    assert.is_false(self.cells.saveRecord("lease:x", self.cells.newRecord("g")))
    assert.is_false(self.cells.thaw("lease:x:n", 5))
    assert.same({ 0, 0, 7 }, { self.cells.freeze("lease:x:n"), self.cells.takeOut("lease:x:n", 3), self.cells.addAsked("lease:x", 7) })
  end)

  it("are frozen and set again with nobody finding units in between", function()
    local self = leaseWorld()
    self.cells.thaw("lease:x:n", 12)
    assert.equal(9, self.cells.takeOut("lease:x:n", 3))
    assert.equal(9, self.cells.freeze("lease:x:n"))
    assert.is_true(self.cells.unitsIn("lease:x:n") < -1000000000)
    assert.is_true(self.cells.thaw("lease:x:n", 4))
    assert.equal(4, self.cells.unitsIn("lease:x:n"))
    assert.equal(0, self.cells.unitsIn("lease:x:none"))
    assert.equal(0, self.cells.freeze("lease:x:new"))
  end)

  it("are claimed by one at a time, and each claim has a token of its own", function()
    local self = leaseWorld()
    local token = self.cells.claim("lease:x", 1)
    assert.is_true(self.cells.isClaimed("lease:x", token))
    assert.is_nil(self.cells.claim("lease:x", 1))
    self.cells.unclaim("lease:x")
    assert.is_false(self.cells.isClaimed("lease:x", token))
    local next = self.cells.claim("lease:x", 1)
    assert.are_not.equal(token, next)
    assert.is_false(self.cells.isClaimed("lease:x", token))
    self.world.run(1002)
    local last
    self.worker.call(function()
      last = self.cells.claim("lease:x", 1)
    end)
    assert.is_string(last)
  end)
end)

describe("a watched lease", function()
  local function looks(self, ms)
    local count, last = 0, self.lease.lookedUs
    for _ = 1, ms do
      self.world.run(1)
      if self.lease.lookedUs ~= last then
        count, last = count + 1, self.lease.lookedUs
      end
    end
    return count
  end

  local function watch(self, lease)
    self.worker.call(function()
      self.watch.lookAndWatch(lease or self.lease)
    end)
  end

  it("is looked at every 5 ms while it is in use, by one timer", function()
    local self = leaseWorld()
    self.put({ demand = 5, plenty = 1 }, 5)
    local timers = self.worker.runningTimers
    watch(self)
    watch(self)
    assert.is_true(self.lease.watched)
    self.world.run(1)
    assert.equal(timers + 1, self.worker.runningTimers)
    local count = looks(self, 50)
    assert.is_true(count >= 8 and count <= 10, tostring(count))
    -- Two leases are watched by the same.
    local other = self.of("other")
    self.put({ demand = 5, plenty = 1 }, 5, other)
    watch(self, other)
    self.world.run(10)
    assert.equal(timers + 1, self.worker.runningTimers)
    assert.is_true(other.watched)
  end)

  it("is not watched where the look found nothing worth it", function()
    local self = leaseWorld()
    watch(self)
    assert.is_false(self.lease.watched)
    assert.equal(0, looks(self, 50))
  end)

  it("is left when nothing is asked for, no units are left and no reply is missing", function()
    local self = leaseWorld()
    local function kept(fields, units)
      self.put({ demand = 5, plenty = 1 }, 5)
      watch(self)
      self.world.run(1)
      self.claimForOther()
      self.put(fields, units)
      self.world.run(12)
      local watched = self.lease.watched
      self.release()
      self.put({ demand = 0, out = 0, deadlineUs = 0 }, 0)
      self.world.run(12)
      assert.is_false(self.lease.watched)
      return watched
    end
    assert.is_false(kept({ demand = 0.09, out = 0, waiting = 0 }))
    assert.is_true(kept({ demand = 0.1, out = 0, waiting = 0 }))
    assert.is_true(kept({ demand = 0, out = 1, waiting = 0 }))
    assert.is_false(kept({ demand = 0, out = 0, waiting = 0 }))
    assert.is_true(kept({ demand = 0, out = 0, waiting = 1 }))
    local timers = self.worker.runningTimers
    self.world.run(100)
    assert.equal(timers, self.worker.runningTimers)
    -- And watched again when it is in use again.
    self.put({ demand = 5, plenty = 1 }, 5)
    watch(self)
    assert.is_true(looks(self, 50) >= 8)
  end)

  it("is watched on after an error, which the log tells", function()
    local self = leaseWorld()
    self.put({ demand = 5, plenty = 1 }, 5)
    watch(self)
    self.world.run(1)
    local id = self.lease.id
    self.lease.id = false
    self.world.run(5)
    self.lease.id = id
    assert.equal(1, #self.world.logged("a lease was not checked"))
    assert.is_true(looks(self, 50) >= 8)
    assert.equal(1, #self.world.logged("a lease was not checked"))
  end)

  it("has another watcher a second after nginx dropped the timer of the first, when a request comes", function()
    local self = leaseWorld()
    self.put({ demand = 5, plenty = 1 }, 5)
    self.world.dropsTimer = function()
      return true
    end
    watch(self)
    self.world.run(1)
    self.world.dropsTimer = nil
    self.put({ deadlineUs = 0, refusedUntilUs = self.nowUs() + 9000000 }, 0)
    self.world.run(990)
    self.ask()
    assert.equal(0, looks(self, 8))
    self.world.run(2)
    self.ask()
    assert.is_true(looks(self, 50) >= 8)
  end)

  it("has no second watcher beside one that runs, and the first ends where a second was begun", function()
    local self = leaseWorld()
    self.put({ demand = 5, plenty = 1 }, 5)
    local timers = self.worker.runningTimers
    watch(self)
    self.world.run(1)
    -- It stands still for longer than a second.
    self.worker.block(1100000)
    self.world.run(1098)
    self.put({ demand = 5, plenty = 1 }, 5)
    self.world.run(50)
    for _ = 1, 5 do
      self.worker.call(function()
        self.watch.keepWatching(self.nowUs())
      end)
      self.world.run(10)
    end
    assert.equal(timers + 1, self.worker.runningTimers)
    self.worker.call(function()
      self.watch.keepWatching(self.nowUs() + 2000000)
    end)
    self.world.run(20)
    assert.equal(timers + 1, self.worker.runningTimers)
  end)

  it("is left to others when its worker ends", function()
    local self = leaseWorld()
    self.put({ demand = 5, plenty = 1 }, 5)
    watch(self)
    self.world.run(10)
    self.worker.exiting = true
    self.world.run(10)
    assert.equal(0, looks(self, 50))
    self.worker.call(function()
      self.watch.keepWatching(self.nowUs() + 5000000)
    end)
    assert.equal(0, looks(self, 50))
  end)

  it("is read anew when an operator has changed its counters, and its refusal is forgotten", function()
    local self = leaseWorld()
    self.put({ demand = 5, plenty = 1 }, 5)
    watch(self)
    self.lease.refusal = { untilUs = 0 }
    self.write({ demand = 5, remaining = 11 }, 5)
    self.worker.call(self.watch.forgetLeases)
    assert.is_nil(self.lease.refusal)
    assert.equal(11, self.lease.record.remaining)
    -- It stays the worker's lease of this key, because it is watched.
    self.world.run(10)
    assert.equal(self.lease, self.of())
  end)

  it("gives its place to the lease of the same limits that has taken it, and is left for one of others", function()
    local self = leaseWorld()
    self.put({ demand = 5, plenty = 1 }, 5)
    watch(self)
    self.worker.call(self.watch.forgetLeases)
    local successor = self.of()
    assert.are_not.equal(self.lease, successor)
    self.world.run(10)
    assert.same({ false, true }, { self.lease.watched, successor.watched })
    self.world.publish({ support.policy("a", support.fixed("90/1h"), { consistency = "leased" }) })
    self.world.run(30)
    local policy = self.worker.module("gateway.src.snapshot.current").policiesOf("shop").a
    local other = self.leases.leaseOf(policy, "k")
    assert.are_not.equal(successor.id, other.id)
    self.world.run(10)
    assert.same({ false, false }, { successor.watched, other.watched })
  end)
end)

describe("what a worker knows of leases", function()
  it("is kept while they are used, and forgotten after four seconds without", function()
    local self = leaseWorld()
    self.world.run(1990)
    assert.equal(self.lease, self.of())
    self.world.run(20)
    self.of("another")
    self.world.run(1990)
    -- It is in the older generation, and comes into the newer.
    assert.equal(self.lease, self.of())
    self.world.run(1990)
    assert.equal(self.lease, self.of())
    self.world.run(2500)
    self.of("another2")
    self.world.run(2500)
    self.of("another3")
    assert.are_not.equal(self.lease, self.of())
    local again = self.of()
    self.world.run(10000)
    self.of("another4")
    assert.are_not.equal(again, self.of())
  end)

  it("belongs to the limits, not to the policy: a policy that is compiled anew has another lease in memory, with the same record", function()
    local self = leaseWorld()
    self.put({ remaining = 12 }, 5)
    local function leaseAfter(limit, more)
      self.world.publish({ support.policy("a", limit, support.with({ consistency = "leased" }, more or {})) })
      self.world.run(30)
      return self.leases.leaseOf(self.worker.module("gateway.src.snapshot.current").policiesOf("shop").a, "k")
    end
    local same = leaseAfter(self.limit, { onStoreFailure = "deny" })
    assert.same({ self.lease.id, 12 }, { same.id, same.record.remaining })
    assert.are_not.equal(self.lease.id, leaseAfter(support.fixed("101/1h")).id)
    assert.are_not.equal(self.lease.id, leaseAfter(support.fixed("100/2h")).id)
    local bucket = leaseAfter(support.bucket("100/1h", 50)).id
    assert.are_not.equal(bucket, leaseAfter(support.bucket("100/1h", 51)).id)
    assert.are_not.equal(self.of("k").id, self.of("j").id)
  end)

  it("says when Redis last told of a key, and until when it has nothing", function()
    local self = leaseWorld()
    local function known()
      local last
      self.worker.call(function()
        last = self.leases.lastKnownOfLease({ policy = self.policy, keyValues = "k" })
      end)
      return last
    end
    assert.is_nil(known())
    assert.equal(0, self.leases.leaseKnownSinceUs({ policy = self.policy, keyValues = "k" }))
    local nowUs = self.nowUs()
    local aheadUs = self.worker.wallUs() - nowUs
    self.write({ acknowledged = 3, deadlineUs = nowUs + 300000 - 700 - 300, durationUs = 300000, retryAtUs = nowUs + 80000 })
    assert.same({ atUs = aheadUs + nowUs - 700, nothingUntilUs = aheadUs + nowUs + 80000 }, known())
    assert.equal(nowUs - 700, self.leases.leaseKnownSinceUs({ policy = self.policy, keyValues = "k" }))
    local function refusal(agoUs, isUsedUp, nothingUntilUs)
      return { atUs = nowUs - agoUs, isUsedUp = isUsedUp, nothingUntilUs = nothingUntilUs, submittedAtSeconds = self.worker.wallUs() / 1000000 }
    end
    self.lease.refusal = refusal(600, false, 0)
    assert.same({ atUs = aheadUs + nowUs - 700, nothingUntilUs = aheadUs + nowUs + 80000 }, known())
    self.lease.refusal = refusal(600, true, 0)
    assert.same({ atUs = aheadUs + nowUs - 600, nothingUntilUs = aheadUs }, known())
    self.lease.refusal = refusal(600, true, nowUs + 90000)
    assert.same({ atUs = aheadUs + nowUs - 600, nothingUntilUs = aheadUs + nowUs + 90000 }, known())
    assert.equal(nowUs - 600, self.leases.leaseKnownSinceUs({ policy = self.policy, keyValues = "k" }))
    self.lease.chargedUs = nowUs - 600
    assert.same({ atUs = aheadUs + nowUs - 600, nothingUntilUs = aheadUs + nowUs + 90000 }, known())
    -- Redis has charged the key since, although there was to be nothing.
    self.lease.chargedUs = nowUs - 599
    assert.same({ atUs = aheadUs + nowUs - 700, nothingUntilUs = 0 }, known())
    self.lease.chargedUs = nowUs + 90000
    assert.same({ atUs = aheadUs + nowUs - 600, nothingUntilUs = aheadUs + nowUs + 90000 }, known())
    self.lease.chargedUs = 0
    self.lease.refusal = refusal(800, true, nowUs + 90000)
    assert.same({ atUs = aheadUs + nowUs - 700, nothingUntilUs = aheadUs + nowUs + 80000 }, known())
    assert.equal(nowUs - 700, self.leases.leaseKnownSinceUs({ policy = self.policy, keyValues = "k" }))
  end)
end)

describe("a refusal that an operator's change has made wrong", function()
  local function begin(self, policy)
    local began = self.world.clock.nowUs
    local result = {}
    self.worker.call(function()
      self.store.forget(policy or self.policy, "k")
      result.tookMs = (self.world.clock.nowUs - began) / 1000
    end)
    return result
  end

  it("is taken out of the record", function()
    local self = leaseWorld()
    local later = self.nowUs() + 9000000
    self.put({ refusedUntilUs = later, retryAtUs = later, remaining = 13 })
    assert.equal(0, begin(self).tookMs)
    assert.same({ 0, 0, 13 }, { self.record().refusedUntilUs, self.record().retryAtUs, self.record().remaining })
    assert.is_nil(self.locks:get(self.lease.id))
  end)

  it("is taken out after the exchange that is under way, for which it waits 250 ms at most", function()
    local self = leaseWorld()
    local later = self.nowUs() + 9000000
    self.put({ refusedUntilUs = later })
    self.claimForOther()
    local result = begin(self)
    self.world.run(100)
    assert.equal(later, self.record().refusedUntilUs)
    self.release()
    self.world.run(6)
    assert.equal(0, self.record().refusedUntilUs)
    assert.is_true(result.tookMs >= 100 and result.tookMs <= 106)
    self.put({ refusedUntilUs = later })
    self.claimForOther()
    result = begin(self)
    self.world.run(245)
    assert.is_nil(result.tookMs)
    self.world.run(10)
    assert.is_true(result.tookMs >= 249)
    assert.equal(later, self.record().refusedUntilUs)
    assert.equal("other 1", self.locks:get(self.lease.id))
  end)

  it("is nothing to a key without a record, nor to a policy that is not leased", function()
    local self = leaseWorld()
    begin(self)
    assert.is_nil(self.record())
    assert.is_nil(self.locks:get(self.lease.id))
    local later = self.nowUs() + 9000000
    self.put({ refusedUntilUs = later })
    local exact = setmetatable({ store = "exact" }, { __index = self.policy.policy })
    begin(self, setmetatable({ policy = exact }, { __index = self.policy }))
    assert.equal(later, self.record().refusedUntilUs)
  end)
end)
