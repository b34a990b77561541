-- gateway/src/runtime/defects.ts: what a defect of Sluice does to requests, to locks and to the metrics. The defect here is an access to a
-- shared dict that fails.

local support = require("test.gateway.virtual.support")
local ask, bucket, policy = support.ask, support.bucket, support.policy

local node = { scope = "node" }
local policies = {
  policy("one", bucket("1/1h", 5), node),
  policy("two", bucket("1/1h", 5), { scope = "node", limits = { bucket("1/1h", 5), support.fixed("9/1d") } }),
  policy("slots", { algorithm = "concurrency", quota = 5, ttl = "2s" }, node),
  policy("sent", support.fixed("1000/1h"), { scope = "node", cost = { from = "response-bytes" } }),
}
-- `two` has limits of its own.
policies[2].limits[2].name = "day"

local function counters(worker)
  return worker.module("gateway.src.runtime.shared-memory").countersDict
end

-- Lets every read of a counter in this worker fail while `work` runs.
local function withDefect(worker, work)
  local dict = counters(worker)
  local get = dict.get
  function dict.get()
    error("a defect")
  end
  work()
  dict.get = get
end

local function errorsAt(world, place)
  return support.defects(world)[place] or 0
end

local function locks(world)
  return world.dict("sluice_locks"):get_keys(0)
end

for _, restyLock in ipairs({ true, false }) do
  local function worldWith(options)
    return support.world(
      support.with({ policies = policies, redis = false, workers = 2, restyLock = restyLock }, options or {})
    )
  end

  describe("a defect in the access phase, " .. (restyLock and "with" or "without") .. " lua-resty-lock,", function()
    for _, name in ipairs({ "one", "two", "slots", "sent" }) do
      it("lets the request pass, is counted, and leaves no lock: policy " .. name, function()
        local world = worldWith()
        local request
        withDefect(world.workers[1], function()
          request = ask(world, name)[1]
          world.run(0.01)
        end)
        assert.is_true(request.passed)
        assert.is_nil(request.headers["X-RateLimit-Remaining"])
        assert.equal(1, errorsAt(world, "access"))
        assert.same({}, locks(world))
        assert.equal(1, #world.logged("a request passed without a decision, because Sluice failed"))
        -- So the next request for this key does not wait.
        local next = ask(world, name, 1, { worker = 2 })[1]
        world.run(0.01)
        assert.is_true(next.passed)
        world.run(10)
        assert.same({}, world.errors)
      end)
    end

    it("releases the lock also if it had to be waited for", function()
      local world = worldWith()
      local first = ask(world, "one")[1]
      world.run(1)
      assert.is_true(first.passed)
      local cell = world.dict("sluice_counters"):get_keys(0)[1]
      world.dict("sluice_locks"):set(cell, true, 0.05)
      withDefect(world.workers[1], function()
        ask(world, "one")
        world.run(100)
      end)
      assert.equal(1, errorsAt(world, "access"))
      assert.same({}, locks(world))
    end)
  end)
end

describe("whoever catches a defect", function()
  local world, worker, lock, defects

  before_each(function()
    world = support.world({ policies = policies, redis = false, workers = 2 })
    worker = world.workers[1]
    lock = worker.module("gateway.src.stores.node.key-lock")
    defects = worker.module("gateway.src.runtime.defects")
  end)

  it("releases both locks that the code held", function()
    worker.call(function()
      assert.is_true(lock.acquire("first"))
      assert.is_true(lock.acquireBeside("second"))
      assert.equal(2, #locks(world))
      defects.noteDefect("timers", "broke off", "a defect")
    end)
    assert.same({}, locks(world))
  end)

  it("releases no lock of code that waits for its second one meanwhile", function()
    world.dict("sluice_locks"):set("second", true, 0.1)
    worker.call(function()
      assert.is_true(lock.acquire("first"))
      assert.is_true(lock.acquireBeside("second"))
      lock.release("second")
      lock.release("first")
    end)
    world.run(10)
    worker.call(function()
      assert.is_true(lock.acquire("of another request"))
      defects.noteDefect("access", "broke off", "a defect")
    end)
    local left = locks(world)
    table.sort(left)
    assert.same({ "first", "second" }, left)
    world.run(200)
    assert.same({}, locks(world))
  end)

  it("releases the lock of every operation on counters", function()
    local state = worker.module("gateway.src.snapshot.current")
    local operations = {
      { "node-counters", "refundOnNode", { {} } },
      { "node-counters", "renewOnNode", 1 },
      { "node-counters", "beginShareOnNode", {} },
      { "deferred-charge", "admitDeferredOnNode" },
      { "deferred-charge", "chargeDeferredOnNode", 1 },
      { "peek", "peekOnNode" },
    }
    local of = state.policiesOf("shop").slots
    for i, operation in ipairs(operations) do
      local run = worker.module("gateway.src.stores.node." .. operation[1])[operation[2]]
      local limits = operation[2] == "renewOnNode" and of.limits[1] or of.limits
      withDefect(worker, function()
        worker.call(function()
          local done, failure = pcall(run, of, limits, "1:k", operation[3])
          assert.is_false(done, operation[2])
          assert.equal(1, #locks(world), operation[2] .. ": " .. tostring(failure))
          defects.noteDefect("timers", "broke off", failure)
        end)
      end)
      assert.same({}, locks(world), operation[2])
      assert.equal(i, errorsAt(world, "timers"))
    end
  end)

  it("hides no line of another place, and counts what the log leaves out", function()
    worker.call(function()
      for _ = 1, 100 do
        defects.noteDefect("access", "a request passed", "a defect")
      end
      defects.noteDefect("push", "a message was lost", "a defect")
    end)
    assert.equal(1, #world.logged("a request passed"))
    assert.equal(1, #world.logged("a message was lost"))
    assert.equal(100, errorsAt(world, "access"))
    assert.equal(1, errorsAt(world, "push"))
    assert.same({ "access", "push" }, defects.recentDefects())
    world.run(301000)
    assert.same({}, defects.recentDefects())
  end)
end)

describe("a defect in the background", function()
  it("is counted, and the work goes on at its next time", function()
    local world = support.world({ policies = policies, redis = false, workers = 1 })
    local background = world.workers[1].module("gateway.src.runtime.background")
    local runs = 0
    world.workers[1].call(function()
      background.runEvery(1, function()
        runs = runs + 1
        error("a defect")
      end)
      background.runSoon(function()
        error("a defect")
      end)
    end)
    world.run(3100)
    assert.equal(3, runs)
    assert.equal(4, errorsAt(world, "timers"))
    assert.same({}, world.errors)
  end)

  it("at the end of a request is counted, and ends nothing else", function()
    local world = support.world({ policies = policies, redis = false, workers = 1 })
    local worker = world.workers[1]
    local state = worker.module("gateway.src.request.request-state")
    local ended = 0
    local broken = state.newRequestField(function()
      error("a defect")
    end)
    local whole = state.newRequestField(function()
      ended = ended + 1
    end)
    local request = ask(world, "one", 1, { serviceUs = 50000 })[1]
    world.run(1)
    worker.call(function()
      worker.task.request = request
      state.keepForRequest(broken, true)
      state.keepForRequest(whole, true)
    end)
    world.run(100)
    assert.equal(1, ended)
    assert.equal(1, errorsAt(world, "log"))
    assert.same({}, world.errors)
  end)
end)
