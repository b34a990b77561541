-- gateway/src/stores/redis/refusal-cache.ts and shared-refusals.ts: what a worker remembers of refusals, and until when.

local support = require("test.gateway.virtual.support")
local ask, fixed, bucket, policy = support.ask, support.fixed, support.bucket, support.policy

-- Has a worker make all forget, as an operator's order does. Returns whether it is done.
local function forgetEverywhere(world, number)
  local worker, order = world.workers[number], { done = false }
  worker.call(function()
    worker.module("gateway.src.stores.redis.refusal-cache").forgetRefusalsEverywhere()
    order.done = true
  end)
  return order
end

describe("a refusal by Redis", function()
  local hour = fixed("3/1h")

  -- A world in which the key has used up its three units, and worker 1 knows it.
  local function usedUp(options)
    options = options or {}
    options.policies = options.policies or { policy("a", hour, options.more) }
    local world = support.world(options)
    assert.same({ [200] = 3, [429] = 1 }, (function()
      local requests = ask(world, "a", 4)
      world.run(100)
      return world.statuses(requests)
    end)())
    world.redis.calls = {}
    return world
  end

  local function statusesOf(world, requests, ms)
    world.run(ms or 100)
    return world.statuses(requests)
  end

  it("is remembered: a flood over the limit asks Redis nothing", function()
    local world = usedUp()
    assert.same({ [429] = 500 }, statusesOf(world, ask(world, "a", 500)))
    assert.equal(0, world.redis.count("charge_fixed_window"))
    support.assertQuiet(world)
  end)

  it("is answered in the turn in which the request came", function()
    local world = usedUp()
    local request = ask(world, "a")[1]
    assert.equal(429, request.status)
    assert.equal(request.beganUs, request.decidedUs)
  end)

  it("tells how long there is nothing, and that falls with time", function()
    local world = usedUp()
    local first = tonumber(ask(world, "a")[1].headers["Retry-After"])
    world.run(9000)
    local later = tonumber(ask(world, "a")[1].headers["Retry-After"])
    assert.is_true(math.abs(first - 9 - later) <= 1, first .. " " .. later)
  end)

  it("of a large cost is forgotten when a small one is charged: what clients are told stays true", function()
    local limit = { algorithm = "sliding-window", quota = 6, window = "60s" }
    local cost = { from = "header:x-cost", default = 1, max = 6 }
    local world = support.world({ policies = { policy("a", limit, { cost = cost }) } })
    local function asking(units)
      local request = world.workers[1].request({ uri = "/a", variables = { http_x_key = "k", http_x_cost = tostring(units) } })
      world.run(100)
      return request
    end
    assert.equal(200, asking(3).status)
    assert.equal("3", asking(6).headers["X-RateLimit-Remaining"])
    assert.equal(200, asking(1).status)
    assert.equal(200, asking(2).status)
    world.run(2000)
    local refused = asking(6)
    assert.same({ 429, "0" }, { refused.status, refused.headers["X-RateLimit-Remaining"] })
    world.run(tonumber(refused.headers["Retry-After"]) * 1000)
    assert.equal(200, asking(6).status)
    support.assertQuiet(world)
  end)

  it("is remembered for ten seconds at most", function()
    local world = usedUp()
    world.run(9700)
    assert.equal(429, ask(world, "a")[1].status)
    assert.equal(0, world.redis.count("charge_fixed_window"))
    world.run(300)
    assert.same({ [429] = 1 }, statusesOf(world, ask(world, "a")))
    assert.equal(1, world.redis.count("charge_fixed_window"))
  end)

  it("is forgotten when the limit has units again, and no earlier", function()
    local limit = bucket("1/1s", 1)
    local world = support.world({ policies = { policy("a", limit) }, redis = { upUs = 0, downUs = 0, connectUs = 0 } })
    local first = ask(world, "a", 1)[1]
    world.run(1)
    local askedUs = world.clock.nowUs
    local second = ask(world, "a", 1)[1]
    world.run(1)
    assert.same({ 200, 429 }, { first.status, second.status })
    world.redis.calls = {}
    -- The unit is there a second after the first was charged. The refusal counts from when it was asked for, which is later.
    local refusedUntilUs = first.decidedUs + 1000000
    world.clock.runUntil(refusedUntilUs - 1)
    assert.equal(429, ask(world, "a")[1].status)
    assert.equal(0, world.redis.count("charge_token_bucket"))
    world.clock.runUntil(refusedUntilUs + 10)
    assert.is_true(world.clock.nowUs < askedUs + 1000000)
    assert.same({ [200] = 1 }, statusesOf(world, ask(world, "a"), 10))
  end)

  it("is not kept alive by requests that another policy refuses, once Redis has units for them", function()
    local total, slots = policy("a", hour), policy("b", { algorithm = "concurrency", quota = 1, ttl = "60s" })
    total.key, total.match = { "const:all" }, { paths = { "/a", "/h" } }
    slots.match = { paths = { "/a" } }
    local world = support.world({ policies = { total, slots } })
    local holder = ask(world, "a", 1, { serviceUs = 60000000 })
    world.run(10)
    assert.same({ [200] = 2, [429] = 1 }, statusesOf(world, ask(world, "h", 3)))
    -- Another gateway has refunded all units.
    for key in pairs(world.redis.keys) do
      if key:find("a:", 1, true) and key:find("all", 1, true) then
        world.redis.keys[key] = nil
      end
    end
    world.run(9900)
    for _ = 1, 500 do
      ask(world, "a")
      world.run(1)
    end
    assert.same({ [200] = 1 }, world.statuses(holder))
    assert.same({ [200] = 3 }, statusesOf(world, ask(world, "h", 3)))
  end)

  it("is each worker's own while Redis answers", function()
    local world = usedUp({ workers = 2 })
    assert.same({ [429] = 1 }, statusesOf(world, ask(world, "a", 1, { worker = 2 })))
    assert.equal(1, world.redis.count("charge_fixed_window"))
  end)

  it("of slots is not remembered, which come back at any moment", function()
    local slots = { algorithm = "concurrency", quota = 1, ttl = "10s" }
    local world = support.world({ policies = { policy("a", slots) } })
    local holder = ask(world, "a", 1, { serviceUs = -1 })[1]
    world.run(10)
    assert.same({ [429] = 1 }, statusesOf(world, ask(world, "a"), 10))
    holder.finish()
    world.run(10)
    assert.same({ [200] = 1 }, statusesOf(world, ask(world, "a"), 10))
  end)

  it("of a policy that is edited says nothing of the new one", function()
    local world = usedUp()
    world.publish({ policy("a", fixed("5/1h")) })
    world.run(20)
    assert.same({ [200] = 2, [429] = 1 }, statusesOf(world, ask(world, "a", 3)))
  end)

  it("is forgotten by all workers when an operator has changed the counter", function()
    local world = usedUp({ workers = 2 })
    ask(world, "a", 1, { worker = 2 })
    world.run(10)
    world.redis.flush()
    world.redis.keys["sluice:epoch"] = "the same"
    world.redis.calls = {}
    local order = forgetEverywhere(world, 2)
    world.run(30)
    assert.is_true(order.done)
    assert.same({ [200] = 2 }, statusesOf(world, ask(world, "a", 2, { worker = 0 })))
  end)

  it("is forgotten by all workers before the operator has the answer, but nobody waits more than a second for a worker that is gone", function()
    local world = usedUp({ workers = 2 })
    world.workers[1].kill()
    local order = forgetEverywhere(world, 2)
    world.run(900)
    assert.is_false(order.done)
    world.run(150)
    assert.is_true(order.done)
  end)

  it("that was asked for before an operator changed the counter, and comes after it, is not remembered", function()
    local world = usedUp({ policies = { policy("a", hour), policy("b", hour) } })
    world.redis.downUs = 200000
    world.redis.keys[support.counterKey("b", hour)] = world.redis.keys[support.counterKey("a", hour)]
    world.redis.px[support.counterKey("b", hour)] = "3600000"
    local request = ask(world, "b")[1]
    world.run(5)
    forgetEverywhere(world, 1)
    world.run(100)
    world.redis.keys[support.counterKey("b", hour)] = nil
    assert.is_nil(request.status)
    world.run(100)
    assert.equal(429, request.status)
    world.redis.downUs = 100
    assert.same({ [200] = 1 }, statusesOf(world, ask(world, "b")))
  end)

  it("is forgotten within two seconds when Redis was emptied", function()
    local world = usedUp()
    world.redis.flush()
    world.run(2000)
    assert.same({ [200] = 1 }, statusesOf(world, ask(world, "a")))
  end)

  it("is forgotten when another Redis has taken over, which knows another epoch", function()
    local world = usedUp()
    world.redis.flush()
    world.redis.keys["sluice:epoch"] = "another"
    world.run(2000)
    assert.same({ [200] = 1 }, statusesOf(world, ask(world, "a")))
  end)

  it("stays while the epoch cannot be read", function()
    local world = usedUp()
    world.redis.stop()
    world.run(9000)
    assert.same({ [429] = 1 }, statusesOf(world, ask(world, "a")))
    assert.equal(0, world.redis.count("charge_fixed_window"))
  end)

  it("is not believed when the machine's clock has stepped back behind it", function()
    local world = usedUp()
    world.wallUs = world.wallUs - 600000000
    assert.same({ [429] = 1 }, statusesOf(world, ask(world, "a")))
    assert.equal(1, world.redis.count("charge_fixed_window"))
  end)

  it("is asked for again when the machine's clock has stepped ahead", function()
    local world = usedUp()
    world.wallUs = world.wallUs + 600000000
    assert.same({ [429] = 1 }, statusesOf(world, ask(world, "a")))
    assert.equal(1, world.redis.count("charge_fixed_window"))
  end)

  it("keeps to its place among very many, and memory has an end", function()
    local world = usedUp()
    local cache = world.workers[1].module("gateway.src.stores.redis.refusal-cache")
    local compiled = world.workers[1].module("gateway.src.snapshot.current").policiesOf("shop").a
    local merged = function()
      local one = world.workers[1].module("limiter.src.compiled.merged-decision").newMergedDecision()
      one.violated = { "default" }
      return one
    end
    local seconds = (world.wallUs + world.clock.nowUs) / 1e6
    local known = function(name)
      return cache.refusalKnownSince(compiled, name) > 0
    end
    world.workers[1].call(function()
      for i = 1, 4096 do
        cache.rememberRefusal(compiled, "n" .. i, merged(), 1e6, { limits = { "default" }, isLasting = true }, seconds)
      end
    end)
    assert.same({ true, true }, { known("n1"), known("n4096") })
    world.workers[1].call(function()
      for i = 4097, 8300 do
        cache.rememberRefusal(compiled, "n" .. i, merged(), 1e6, { limits = { "default" }, isLasting = true }, seconds)
      end
    end)
    assert.same({ false, true }, { known("n1"), known("n8300") })
  end)

  it("is known of each plan, also where requests of several plans of a counter take turns", function()
    local function plan(quota)
      return { support.with(fixed(quota .. "/1d"), { name = "daily" }) }
    end
    local plans = { plans = { free = plan(5), pro = plan(50) }, planBy = "header:x-plan", defaultPlan = "free" }
    local world = support.world({ workers = 1, policies = { policy("a", nil, plans) } })
    local function send(name, count)
      local requests = ask(world, "a", count, { variables = { http_x_plan = name } })
      world.run(10)
      return world.statuses(requests)
    end
    assert.same({ [200] = 50, [429] = 5 }, send("pro", 55))
    assert.same({ [429] = 1 }, send("free", 1))
    world.redis.calls = {}
    for _ = 1, 50 do
      assert.same({ [429] = 1 }, send("pro", 1))
      assert.same({ [429] = 1 }, send("free", 1))
    end
    assert.equal(0, world.redis.count("charge_fixed_window"))
  end)

  describe("while Redis is away", function()
    it("is known to all workers, also to those of a reload", function()
      local world = usedUp({ workers = 2 })
      world.redis.kill()
      world.run(2000)
      local third = world.addWorker(3)
      third.begin()
      world.run(50)
      for worker = 2, 3 do
        assert.same({ [429] = 20 }, statusesOf(world, ask(world, "a", 20, { worker = worker })))
      end
      assert.same({ [200] = 3, [429] = 17 }, statusesOf(world, ask(world, "a", 20, { worker = 3, key = "other" })))
    end)

    it("is known until Redis was emptied", function()
      local world = usedUp({ workers = 2 })
      world.redis.flush()
      world.run(2000)
      world.redis.kill()
      world.run(2000)
      assert.same({ [200] = 3, [429] = 17 }, statusesOf(world, ask(world, "a", 20, { worker = 2 })))
    end)

    it("is known until an operator has changed the counter", function()
      local world = usedUp({ workers = 2 })
      world.redis.kill()
      world.run(2000)
      forgetEverywhere(world, 2)
      world.run(50)
      assert.same({ [200] = 3, [429] = 17 }, statusesOf(world, ask(world, "a", 20, { worker = 2 })))
    end)
  end)
end)
