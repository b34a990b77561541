-- gateway/src/stores/redis/submit.ts: how long a request waits for Redis, and by whom its checks are sent.

local support = require("test.gateway.virtual.support")

local day = support.fixed("5000/1d")

local function submitWorld()
  local world = support.world({ policies = {
    support.policy("a", day),
    support.policy("b", day),
    support.policy("hurried", day, { maxStoreWait = "50ms" }),
    support.policy("patient", day, { maxStoreWait = "5s" }),
    support.policy("slots", { algorithm = "concurrency", quota = 9, ttl = "1m" }),
  } })
  local worker = world.workers[1]
  local function load(name)
    return worker.module("gateway.src.stores.redis." .. name)
  end
  local settings = worker.module("gateway.src.redis.redis-settings").theRedis()
  local function policyOf(name)
    return worker.module("gateway.src.snapshot.current").policiesOf("shop")[name]
  end
  local self = { world = world }

  function self.queue()
    return worker.inner("gateway.src.stores.redis.batcher", "queues")[0]
  end

  -- Submits checks of these policies together, and returns what became of them.
  function self.submit(...)
    local checks = {}
    for i, name in ipairs({ ... }) do
      checks[i] = { policy = policyOf(name), keyValues = "1:k", chargedAt = {}, separate = false, degraded = false }
    end
    local pending
    worker.call(function()
      pending = load("submit").submit(settings, checks, load("slot-groups").firstKey(checks[1]))
    end)
    world.run(100)
    return pending, checks
  end

  function self.decideOne(name)
    local allowed
    worker.call(function()
      allowed = load("decide-checks").decideOneInRedis(settings, policyOf(name), "1:k",
        worker.module("limiter.src.compiled.merged-decision").newMergedDecision())
    end)
    local byThread = self.queue().running
    world.run(100)
    return allowed, byThread
  end

  return self
end

describe("a request's checks in Redis", function()
  it("wait as long as the policy says that waits least, and five deadlines at most", function()
    local self = submitWorld()
    local function limitMs(...)
      return self.submit(...).limitMs
    end
    assert.equal(1000, limitMs("a"))
    assert.equal(1000, limitMs("patient"))
    assert.equal(50, limitMs("hurried"))
    assert.equal(1000, limitMs("a", "b"))
    assert.equal(50, limitMs("a", "hurried"))
    assert.equal(50, limitMs("hurried", "a"))
    assert.equal(50, limitMs("a", "hurried", "b"))
  end)

  it("are sent by the queue's thread where a policy waits for less than others, or holds slots", function()
    local self = submitWorld()
    local function inQueue(...)
      local pending = self.submit(...)
      return { pending.inQueue, pending.mustKeep }
    end
    assert.same({ false, false }, inQueue("a"))
    assert.same({ false, false }, inQueue("a", "b"))
    assert.same({ true, false }, inQueue("hurried"))
    assert.same({ true, false }, inQueue("a", "hurried"))
    assert.same({ true, false }, inQueue("hurried", "b"))
    assert.same({ true, true }, inQueue("slots"))
    assert.same({ true, true }, inQueue("a", "slots"))
  end)

  it("of a simple policy are sent by the request itself, unless the policy waits for less than others", function()
    local self = submitWorld()
    self.submit("a")
    local _, byThread = self.decideOne("a")
    assert.is_false(byThread)
    _, byThread = self.decideOne("hurried")
    assert.is_true(byThread)
    _, byThread = self.decideOne("a")
    assert.is_false(byThread)
  end)

  it("say what is without a reply, and nothing of it where there is one", function()
    local self = submitWorld()
    local pending, checks = self.submit("a", "b")
    assert.is_table(pending.numbers)
    assert.is_nil(checks[1].unanswered)
    self.world.redis.error = "LOADING Redis is loading the dataset in memory"
    pending, checks = self.submit("a", "b")
    assert.equal(pending, checks[1].unanswered)
    assert.equal(pending, checks[2].unanswered)
  end)
end)
