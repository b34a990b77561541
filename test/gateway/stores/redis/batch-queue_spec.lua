-- gateway/src/stores/redis/batcher.ts by itself, with checks that a spec makes: which call a check goes with, who calls by itself, how many
-- batches and threads there are, and what becomes of a check without a reply.

local support = require("test.gateway.virtual.support")

local day = support.fixed("5000/1d")

local function queueWorld(options)
  local world = support.world(support.with({ policies = { support.policy("a", day), support.policy("b", day) } }, options or {}))
  local worker = world.workers[1]
  local function load(name)
    return worker.module("gateway.src.stores.redis." .. name)
  end
  local batcher, submit = load("batcher"), load("submit")
  local self = { world = world, worker = worker, batcher = batcher, reconciled = {} }
  local settings = worker.module("gateway.src.redis.redis-settings").theRedis()
  self.settings = settings

  function self.policy(name)
    return worker.module("gateway.src.snapshot.current").policiesOf("shop")[name or "a"]
  end

  function self.queue(group)
    return batcher.queueOf(settings, group or 0, function(_, pendingChecks)
      for _, pending in ipairs(pendingChecks) do
        self.reconciled[#self.reconciled + 1] = pending
      end
    end)
  end

  -- A check of one counter of a policy.
  function self.counter(key, fields, name)
    local counter = submit.counterOf(self.policy(name), support.counterKey(name or "a", day, key or "k"))
    return support.with({
      checks = {}, counter = counter, group = 0, limitMs = 1000, mustKeep = false, inQueue = false, at = 0, abandoned = false, reconciled = false,
      submittedAtSeconds = 0,
    }, fields or {})
  end

  -- One that has a call of its own, for so many counters.
  function self.caller(keyCount, fields)
    local pending = self.counter("k", fields)
    local keysAndArgs = {}
    for i = 1, keyCount do
      keysAndArgs[i] = support.counterKey("a", day, "own" .. i)
    end
    local charge = worker.inner("gateway.src.stores.redis.submit", "charge")
    for _ = 1, keyCount do
      for _, argument in ipairs({ "fixed-window", "5000", "86400000000", "5000", "1" }) do
        keysAndArgs[#keysAndArgs + 1] = argument
      end
    end
    pending.counter = nil
    pending.call = { script = charge, keyCount = keyCount, keysAndArgs = keysAndArgs }
    return pending
  end

  -- Submits a check in a turn of its own; `done` and `tookUs` when it has been dealt with.
  function self.submit(pending, queue)
    local beganUs = world.clock.nowUs
    worker.call(function()
      batcher.submitTo(queue or self.queue(), pending)
      pending.done, pending.tookUs = true, world.clock.nowUs - beganUs
    end)
    return pending
  end

  -- The queue's thread lives, and does nothing: what is submitted stays in batches until one of the other threads sends it.
  function self.held(group)
    local queue = self.queue(group)
    queue.running = true
    return queue
  end

  function self.metric(name)
    return world.dict("sluice_metrics"):get(name) or 0
  end

  function self.threads()
    return worker.inner("gateway.src.stores.redis.batcher", "threads")
  end

  return self
end

describe("a check that comes alone", function()
  it("is a call of its request's own, and nobody else has to be there", function()
    local self = queueWorld()
    local one = self.submit(self.counter())
    assert.equal(1, self.queue().direct)
    self.world.run(5)
    assert.same({ true, 1, nil }, { one.done, one.numbers[0], one.failure })
    assert.same({ 0, 0 }, { self.queue().direct, self.threads() })
    local call = self.submit(self.caller(2))
    self.world.run(5)
    assert.same({ 1, nil }, { call.numbers[call.at], call.failure })
    assert.equal(1, self.world.redis.count("charge"))
  end)

  it("is sent by the queue's thread where its request may stop waiting sooner than others", function()
    local self = queueWorld()
    local one = self.submit(self.counter("k", { inQueue = true }))
    assert.same({ true, 1, 0 }, { self.queue().running, self.threads(), self.queue().direct })
    self.world.run(5)
    assert.same({ true, 1 }, { one.done, one.numbers[0] })
    self.world.run(60)
    assert.same({ false, 0 }, { self.queue().running, self.threads() })
  end)

  it("knows whether it may have been charged, where there is no reply to it", function()
    local self = queueWorld()
    self.world.redis.error = "LOADING Redis is loading the dataset in memory"
    local refused = self.submit(self.counter())
    self.world.run(5)
    assert.same({ true, nil, false }, { refused.done, refused.numbers, refused.lost })
    assert.is_truthy(refused.failure:find("LOADING", 1, true))
    self.world.redis.error = nil
    self.world.redis.fate = function()
      return { loses = "reply" }
    end
    local lost = self.submit(self.counter())
    self.world.run(5)
    assert.same({ nil, true }, { lost.numbers, lost.lost })
    self.world.redis.fate = nil
    -- A reply that is none: the script was run all the same.
    local odd = self.caller(1, { call = false })
    odd.call = self.worker.module("gateway.src.stores.redis.refunds").refundCall({
      { policy = self.policy(), limits = self.policy().limits, keyValues = "1:k", chargedAt = { 1 } },
    })
    self.submit(odd)
    self.world.run(5)
    assert.same({ true, nil, true }, { odd.done, odd.numbers, odd.lost })
    assert.is_string(odd.failure)
    assert.equal(0, self.queue().direct)
  end)

  it("that comes while another calls has a thread, and later ones wait for it", function()
    local self = queueWorld()
    self.submit(self.counter("k1"))
    assert.is_false(self.queue().running)
    self.submit(self.counter("k2"))
    assert.same({ true, 1, 1 }, { self.queue().running, self.threads(), self.queue().direct })
    self.submit(self.counter("k3"))
    assert.equal(1, #self.queue().batches)
    assert.equal(2, self.queue().batches[1].counters)
    self.world.run(5)
    assert.equal(3, self.world.redis.count("charge_fixed_window") + 1)
  end)

  it("that ends after its place was given to others takes none from them", function()
    local self = queueWorld()
    self.submit(self.counter())
    self.queue().direct = 0
    self.world.run(5)
    assert.equal(0, self.queue().direct)
  end)

  it("is nothing to keep for its request any more, once it has its reply", function()
    local self = queueWorld()
    local one = self.submit(self.counter("k", { mustKeep = true, inQueue = true }))
    assert.are_not.same({}, self.worker.states())
    self.world.run(5)
    assert.equal(1, one.numbers[0])
    assert.same({}, self.worker.states())
    assert.same({}, self.reconciled)
  end)

  it("does not wait for a request that went away in its call, once that must have ended", function()
    local self = queueWorld()
    local queue = self.queue()
    queue.direct, queue.directAtMs = 1, self.worker.module("gateway.src.runtime.clock").nowMs()
    self.world.run(2000)
    self.submit(self.counter("k1"))
    assert.is_true(queue.running)
    self.world.run(200)
    assert.is_false(queue.running)
    self.world.run(1)
    self.submit(self.counter("k2"))
    assert.same({ false, 1 }, { queue.running, queue.direct })
    self.world.run(5)
    assert.equal(0, queue.direct)
  end)

  it("is called by its request where no thread can be had, and the log tells", function()
    local self = queueWorld()
    local at = self.worker.ngx.timer.at
    self.worker.ngx.timer.at = function(seconds, ...)
      if debug.traceback():find("submitTo") or debug.traceback():find("startThread") then
        return nil, "too many pending timers"
      end
      return at(seconds, ...)
    end
    local one = self.submit(self.counter("k", { inQueue = true }))
    self.worker.ngx.timer.at = at
    assert.same({ false, 0, 1 }, { self.queue().running, self.threads(), self.queue().direct })
    self.world.run(5)
    assert.equal(1, one.numbers[0])
    assert.equal(1, #self.world.logged("a thread for batches could not start: too many pending timers"))
  end)

  it("is called by its request where all threads are taken", function()
    local self = queueWorld()
    for group = 1, 64 do
      self.submit(self.counter("k" .. group, { inQueue = true }), self.queue(group))
    end
    assert.equal(64, self.threads())
    local queue = self.queue(65)
    local one = self.submit(self.counter("k65", { inQueue = true }), queue)
    assert.same({ false, 1, 64 }, { queue.running, queue.direct, self.threads() })
    self.world.run(30)
    assert.is_true(one.done)
    self.world.run(100)
    assert.equal(0, self.threads())
    self.submit(self.counter("k65", { inQueue = true }), queue)
    assert.is_true(queue.running)
  end)
end)

describe("checks that wait together", function()
  it("share a call with those of the same limit and cost, and no others", function()
    local self = queueWorld()
    local queue = self.held()
    self.submit(self.counter("k1"))
    self.submit(self.counter("k2"))
    local dear = self.counter("k3")
    dear.counter.cost = 2
    self.submit(dear)
    self.submit(self.counter("k4", nil, "b"))
    self.submit(self.caller(3))
    local batch = queue.batches[1]
    assert.same({ 1, 7, 1, 5 }, { #queue.batches, batch.counters, #batch.callers, batch.waiting })
    assert.equal(3, #batch.sharedCalls)
    local first = batch.sharedCalls[1]
    assert.same({ 2, 2, 1 }, { #first.keys, #first.pendingChecks, first.cost })
    assert.same({ "5000", "86400000000", "0", "1" }, first.numbers)
    assert.same({ 1, 2 }, { #batch.sharedCalls[2].keys, batch.sharedCalls[2].cost })
    assert.same({ "5000", "86400000000", "0", "2" }, batch.sharedCalls[2].numbers)
    assert.same({ 1, 1 }, { #batch.sharedCalls[3].keys, batch.sharedCalls[3].cost })
    local all = { first.pendingChecks[1], first.pendingChecks[2], dear, batch.sharedCalls[3].pendingChecks[1], batch.callers[1] }
    -- 5 ms later another thread sends them.
    self.world.run(10)
    for _, pending in ipairs(all) do
      assert.same({ true, 1, nil }, { pending.done, pending.numbers[pending.at], pending.failure })
    end
    assert.same({ 0, 6 }, { first.pendingChecks[1].at, first.pendingChecks[2].at })
    assert.equal(first.pendingChecks[1].numbers, first.pendingChecks[2].numbers)
    assert.equal(3, self.world.redis.count("charge_fixed_window"))
    self.world.run(1500)
    assert.same({ 1, 7, 0 }, { self.metric("redis-batches"), self.metric("redis-batched-counters"), self.metric("redis-failure:late") })
  end)

  it("are 256 counters a batch and 32 batches at most; more is not decided, and counted", function()
    local self = queueWorld()
    local queue = self.held()
    self.submit(self.caller(255))
    self.submit(self.counter("k"))
    assert.equal(1, #queue.batches)
    for i = 2, 32 do
      self.submit(self.caller(i == 2 and 1 or 256))
      assert.equal(i, #queue.batches)
    end
    local late = self.submit(self.caller(256))
    assert.same({ true, "too many requests wait for Redis", false, nil }, { late.done, late.failure, late.lost, late.numbers })
    local slots = self.submit(self.caller(256, { mustKeep = true }))
    assert.is_true(slots.done)
    assert.equal(32, #queue.batches)
    self.world.run(1500)
    assert.equal(2, self.metric("redis-failure:late"))
    assert.equal(0, #queue.batches)
    support.assertQuiet(self.world)
  end)

  it("are sent by three other threads at most while the queue's own waits, one begun at a time", function()
    local self = queueWorld()
    local queue = self.held()
    self.world.redis.downUs = 100000
    self.submit(self.caller(256))
    self.world.run(4.9)
    assert.same({ 0, false }, { queue.beside, queue.coming })
    self.world.run(0.2)
    assert.equal(1, queue.beside)
    for i = 2, 6 do
      self.submit(self.caller(256))
      self.world.run(6)
      assert.equal(math.min(i, 3), queue.beside)
    end
    assert.equal(3, self.threads())
    assert.equal(3, #queue.batches)
    self.world.run(400)
    assert.same({ 0, 0, 0, false }, { queue.beside, self.threads(), #queue.batches, queue.coming })
  end)

  it("have one other thread begun where many have waited for 5 ms at the same moment", function()
    local self = queueWorld()
    local queue = self.held()
    for _ = 1, 3 do
      self.submit(self.counter("k"))
    end
    for _ = 1, 3 do
      self.submit(self.caller(200))
    end
    local at, coming = self.worker.ngx.timer.at, 0
    self.worker.ngx.timer.at = function(seconds, ...)
      if seconds == 0 and debug.traceback():find("sendBeside") then
        coming = coming + 1
      end
      return at(seconds, ...)
    end
    self.world.run(5.0005)
    assert.is_true(queue.beside <= 1)
    self.world.run(50)
    assert.same({ 0, 0 }, { queue.beside, #queue.batches })
  end)

  it("have no other thread where all are taken, and wait for one", function()
    local self = queueWorld()
    for group = 1, 64 do
      self.submit(self.counter("k" .. group, { inQueue = true }), self.queue(group))
    end
    local queue = self.held(65)
    local one = self.submit(self.counter("k", { limitMs = 40 }), queue)
    self.world.run(39)
    assert.same({ nil, 0 }, { one.done, queue.beside })
    self.world.run(10)
    assert.same({ true, "no reply within the deadline", true }, { one.done, one.failure, one.abandoned })
  end)

  it("have their time by the patience clock, which they keep running", function()
    local self = queueWorld()
    local patience = self.worker.module("gateway.src.redis.patience")
    -- The clock does not begin with them.
    self.worker.call(function()
      patience.keepTicking(0.3)
    end)
    self.world.run(5000)
    local queue = self.held()
    queue.beside = 3
    local one = self.submit(self.counter("k", { limitMs = 60 }))
    self.world.run(30)
    self.worker.block(100000)
    self.world.run(100)
    assert.is_nil(one.done)
    self.world.run(40)
    assert.is_true(one.done)
    assert.is_true(one.tookUs > 135000 and one.tookUs < 160000, tostring(one.tookUs))
  end)

  it("wait five times as long by the stopwatch where that clock has no timer", function()
    local self = queueWorld()
    self.world.run(5000)
    local queue = self.held()
    queue.beside = 3
    local at = self.worker.ngx.timer.at
    self.worker.ngx.timer.at = function(seconds, ...)
      if seconds == 0 then
        return nil, "too many pending timers"
      end
      return at(seconds, ...)
    end
    local one = self.submit(self.counter("k", { limitMs = 105 }))
    self.world.run(2000)
    self.worker.ngx.timer.at = at
    assert.is_true(one.done)
    assert.is_true(one.tookUs >= 504000 and one.tookUs <= 608000, tostring(one.tookUs))
  end)

  it("are given up after their own time, and counted, and others wait on", function()
    local self = queueWorld()
    self.world.redis.downUs = 150000
    local queue = self.queue()
    queue.direct, queue.directAtMs = 1, self.worker.module("gateway.src.runtime.clock").nowMs()
    local hurried = self.submit(self.counter("k1", { limitMs = 50 }))
    local very = self.submit(self.counter("k2", { limitMs = 3 }))
    local patient = self.submit(self.counter("k3"))
    self.world.run(2.9)
    assert.is_nil(very.done)
    self.world.run(7)
    assert.same({ true, true, "no reply within the deadline" }, { very.done, very.abandoned, very.failure })
    self.world.run(39)
    assert.is_nil(hurried.done)
    self.world.run(12)
    assert.same({ true, true, "no reply within the deadline" }, { hurried.done, hurried.abandoned, hurried.failure })
    self.world.run(100)
    assert.same({ true, false, nil }, { patient.done, patient.abandoned, patient.failure })
    assert.equal(1, patient.numbers[patient.at])
    self.world.run(10)
    -- Both were charged: that has to be dealt with.
    assert.equal(2, #self.reconciled)
    self.world.run(1500)
    assert.equal(2, self.metric("redis-failure:late"))
  end)

  it("are not sent after they were given up, and whoever is left is read right", function()
    local self = queueWorld()
    local queue = self.held()
    local gone, there, goneCall, call = self.counter("k1"), self.counter("k2"), self.caller(2), self.caller(1)
    for _, pending in ipairs({ gone, there, goneCall, call }) do
      self.submit(pending)
    end
    local alone = self.submit(self.counter("k9", nil, "b"))
    gone.abandoned, goneCall.abandoned, alone.abandoned = true, true, true
    self.world.run(20)
    assert.same({ -1, 0, -1 }, { gone.at, there.at, alone.at })
    assert.same({ nil, 1, nil, 1 }, { gone.numbers, there.numbers and there.numbers[0], goneCall.numbers, call.numbers and call.numbers[call.at] })
    assert.same({ 1, 1 }, { self.world.redis.count("charge_fixed_window"), self.world.redis.count("charge") })
    -- They were certainly not charged.
    assert.same({ false, false, false }, { gone.lost, goneCall.lost, alone.lost })
    assert.equal(3, #self.reconciled)
    self.world.run(1500)
    assert.same({ 1, 2 }, { self.metric("redis-batches"), self.metric("redis-batched-counters") })
    assert.equal(0, queue.beside)
  end)

  it("are read right where nobody is left of the last call", function()
    local self = queueWorld()
    self.held()
    local there, gone = self.submit(self.counter("k1")), self.submit(self.counter("k2", nil, "b"))
    gone.abandoned = true
    self.world.run(20)
    assert.same({ true, 1, nil }, { there.done, there.numbers and there.numbers[0], there.lost })
    assert.same({}, self.world.logged("a defect"))
    assert.equal(1, #self.reconciled)
  end)

  it("have what failed for their failure, and nothing lost where there is a reply", function()
    local self = queueWorld()
    self.held()
    local call = self.submit(self.caller(1))
    self.world.redis.error = "LOADING Redis is loading the dataset in memory"
    self.world.run(20)
    assert.is_truthy(call.failure:find("LOADING", 1, true))
    self.world.redis.error = nil
    self.world.run(1000)
    self.held()
    local good, charged = self.submit(self.caller(1)), self.submit(self.counter("k2"))
    self.world.redis.downUs = 5000
    self.world.run(7)
    -- It is charged, and its request waits no more when the reply comes.
    charged.abandoned = true
    self.world.run(20)
    assert.same({ true, nil, nil }, { good.done, good.failure, good.lost })
    assert.equal(1, charged.numbers[charged.at])
    assert.is_nil(charged.lost)
    assert.equal(1, #self.reconciled)
  end)

  it("of which nobody is left are no call, and no batch in the counts", function()
    local self = queueWorld()
    self.held()
    local gone = self.submit(self.counter("k1"))
    gone.abandoned = true
    self.world.run(1500)
    assert.same({ 0, 0 }, { self.world.redis.count(), self.metric("redis-batches") })
    assert.same({}, self.world.logged("a defect"))
  end)

  it("know whether they may have been charged, where there is no reply to them", function()
    local self = queueWorld()
    local function batchOf(error, fate)
      self.held()
      self.world.redis.error, self.world.redis.fate = error, fate
      local all = { self.submit(self.counter("k1")), self.submit(self.counter("k2")), self.submit(self.caller(1)) }
      self.world.run(40)
      self.world.redis.error, self.world.redis.fate = nil, nil
      self.world.run(600)
      for _, pending in ipairs(all) do
        assert.is_true(pending.done)
        assert.is_nil(pending.numbers)
        assert.is_string(pending.failure)
      end
      return { all[1].lost, all[2].lost, all[3].lost }
    end
    assert.same({ false, false, false }, batchOf("LOADING Redis is loading the dataset in memory"))
    assert.same({ true, true, true }, batchOf(nil, function(commands)
      return commands[1][1] == "evalsha" and { loses = "reply" } or nil
    end))
  end)

  it("are told of a reply that is none, and may have been charged", function()
    local self = queueWorld()
    self.held()
    local odd, call = self.counter("k1"), self.caller(1)
    odd.counter.script = self.worker.inner("gateway.src.stores.redis.refunds", "refund")
    call.call.script = odd.counter.script
    self.submit(odd)
    self.submit(call)
    self.world.run(40)
    for _, pending in ipairs({ odd, call }) do
      assert.same({ true, nil, true }, { pending.done, pending.numbers, pending.lost })
      assert.is_string(pending.failure)
    end
  end)

  it("go on after a defect in their batch, which the log tells", function()
    local self = queueWorld()
    local queue = self.held()
    local broken, other, gone = self.caller(1), self.counter("k1"), self.counter("k2")
    self.submit(broken)
    self.submit(other)
    self.submit(gone)
    broken.call = nil
    gone.abandoned = true
    self.world.run(20)
    assert.same({ true, true, nil }, { broken.done, other.done, other.numbers })
    assert.equal(1, #self.world.logged("a defect in Sluice left a batch of requests undecided by Redis"))
    -- Whether it was charged is not known.
    assert.is_true(gone.lost)
    assert.equal(0, queue.beside)
    assert.equal(0, self.threads())
  end)
end)

describe("the thread of a queue", function()
  it("sends what comes while it is idle at once, and ends 50 ms after the last", function()
    local self = queueWorld()
    self.submit(self.counter("k1", { inQueue = true }))
    self.world.run(30)
    assert.is_true(self.queue().idle)
    local second = self.submit(self.counter("k2"))
    assert.is_false(self.queue().idle)
    self.world.run(2)
    assert.is_true(second.done and second.tookUs < 1000)
    self.world.run(47)
    assert.same({ true, 1 }, { self.queue().running, self.threads() })
    self.world.run(6)
    assert.same({ false, 0, false }, { self.queue().running, self.threads(), self.queue().idle })
    assert.equal(0, self.world.waitingAtSemaphores())
  end)

  it("leaves its queue to another where Redis is silent, and what waits is sent by that one", function()
    local self = queueWorld()
    self.world.redis.stop()
    local queue = self.queue()
    local first = self.submit(self.counter("k1", { inQueue = true }))
    local call = self.submit(self.caller(1, { inQueue = true }))
    local hurried = self.submit(self.counter("k2", { inQueue = true, limitMs = 50 }))
    self.world.run(231)
    for _, pending in ipairs({ first, call, hurried }) do
      assert.same({ true, "no reply within the deadline", true }, { pending.done, pending.failure, pending.abandoned })
    end
    self.world.run(1500)
    assert.equal(3, self.metric("redis-failure:late"))
    self.world.run(100)
    assert.is_false(queue.running)
    -- The thread that still reads is counted.
    assert.equal(1, self.threads())
    self.world.redis.go()
    self.world.run(300)
    assert.same({ 0, 0 }, { self.threads(), queue.beside })
    assert.is_true(#self.reconciled >= 1)
    for _, pending in ipairs(self.reconciled) do
      assert.is_true(pending.abandoned)
    end
  end)
end)

describe("a check that must not be lost with its request", function()
  it("stays charged where no timer can be had, and the log tells", function()
    local self = queueWorld()
    local pending = self.counter("k1")
    local at = self.worker.ngx.timer.at
    self.worker.ngx.timer.at = function()
      return nil, "too many pending timers"
    end
    self.worker.call(function()
      self.batcher.reconcileSoon(self.queue(), { pending })
    end)
    self.worker.ngx.timer.at = at
    assert.is_true(pending.abandoned)
    assert.equal(1, #self.world.logged("a refund failed"))
    self.worker.call(function()
      self.batcher.reconcileSoon(self.queue(), { self.counter("k2") })
    end)
    self.world.run(1)
    assert.equal(1, #self.reconciled)
    assert.equal(1, #self.world.logged("a refund failed"))
  end)
end)
