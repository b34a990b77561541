-- gateway/src/charging/waiting-requests.ts: more requests would wait than a worker may hold, for units and for their turn. The next one
-- is refused and charged nothing, and the others go on.

local support = require("test.gateway.virtual.support")
local ask, bucket, fixed, metric, policy = support.ask, support.bucket, support.fixed, support.metric, support.policy

local mostWaiting = 20

local function leaky(name, more)
  local limit = { algorithm = "leaky-bucket", quota = 1, window = "60s", burst = 20, maxDelay = "1h" }
  return policy(name, limit, support.with({ scope = "node" }, more or {}))
end

local function delayed(name, window)
  local onLimit = { action = "delay", maxDelay = "2m", maxWaiting = 1000, status = 503 }
  return policy(name, bucket("1/" .. window, 1), { scope = "node", onLimit = onLimit })
end

local policies = {
  leaky("leaky"),
  leaky("cluster", { scope = "cluster" }),
  leaky("several"),
  policy("beside", fixed("1000/1d"), { scope = "node", match = { paths = { "/several" } } }),
  leaky("marked", { onLimit = { action = "tag", header = "x-mark: over" } }),
  leaky("degraded", { onLimit = { action = "degrade", response = { status = 200, body = "cheaper" } } }),
  delayed("delayed", "60s"),
  delayed("quick", "1s"),
}

local function worldWith(options)
  return support.world(support.with({ policies = policies, environment = { SLUICE_MAX_WAITING = tostring(mostWaiting) } }, options or {}))
end

local function waiting(world, number)
  local waits = world.workers[number or 1].inner("gateway.src.charging.waiting-requests", "places").taken
  assert.equal(waits, metric(world, ('sluice_waiting_requests{worker="%d"}'):format((number or 1) - 1)))
  return waits
end

-- Has as many requests wait as may, by two policies. Returns those that wait.
local function fill(world)
  local all = {}
  for i = 1, mostWaiting do
    local name = i % 2 == 0 and "leaky" or "delayed"
    local requests = ask(world, name, 2, { key = "filler " .. i })
    world.run(5)
    assert.same({ 200 }, { requests[1].status, requests[2].status })
    all[i] = requests[2]
  end
  assert.equal(mostWaiting, waiting(world))
  return all
end

-- The answer to the next request, which comes at once.
local function atOnce(world, name, key)
  local request = ask(world, name, 1, { key = key, serviceUs = 0 })[1]
  -- With several workers, a timer makes the refund.
  world.run(5)
  return request
end

for _, workers in ipairs({ 1, 2 }) do
  for _, restyLock in ipairs({ false, true }) do
    describe(("with %d workers%s, beyond the bound of waiting requests,"):format(workers, restyLock and " and lua-resty-lock" or ""), function()
      it("a request is refused as its policy says and charged nothing, and requests that need not wait are served", function()
        for seed = 1, 3 do
          local world = worldWith({ workers = workers, seed = seed, restyLock = restyLock })
          fill(world)
          for _, case in ipairs({ { "leaky", 429 }, { "several", 429 }, { "cluster", 429 }, { "delayed", 503 } }) do
            local name, status = unpack(case)
            local beganUs = world.clock.nowUs
            assert.equal(200, atOnce(world, name, "late").status, name)
            for i = 1, 6 do
              local refused = atOnce(world, name, "late")
              assert.equal(status, refused.status, name)
              -- Refused requests hold no place in the bucket; each would add a minute.
              local seconds = math.ceil((beganUs + 60000000 - refused.beganUs) / 1000000)
              assert.is_near(seconds, tonumber(refused.headers["Retry-After"]), 0.5, ("%s: %d were refused"):format(name, i))
              world.run(90)
            end
          end
          assert.equal(24, metric(world, "sluice_waiting_refusals_total"))
          assert.is_true(#world.logged("requests are refused, because too many wait already: shop/leaky") > 0)
          assert.equal(mostWaiting, waiting(world))
          assert.same({}, world.errors)
        end
      end)
    end)
  end
end

describe("beyond the bound of waiting requests,", function()
  it("a worker that has room has requests wait, whatever the others hold", function()
    local world = worldWith({ workers = 2 })
    fill(world)
    ask(world, "leaky", 1, { key = "late" })
    world.run(5)
    local request = ask(world, "leaky", 1, { key = "late", worker = 2 })[1]
    world.run(100)
    assert.is_nil(request.status)
    assert.equal(1, waiting(world, 2))
  end)

  it("a request gets its policy's mark or something cheaper, and is not charged", function()
    local world = worldWith()
    fill(world)
    local first = atOnce(world, "marked", "late")
    assert.same({ 200 }, { first.status, first.sent["x-mark"] })
    for _ = 1, 3 do
      local marked = atOnce(world, "marked", "late")
      assert.same({ 200, true, "over" }, { marked.status, marked.passed, marked.sent["x-mark"] })
    end
    assert.is_true(atOnce(world, "degraded", "late").passed)
    for _ = 1, 3 do
      local cheaper = atOnce(world, "degraded", "late")
      assert.same({ 200, "cheaper" }, { cheaper.status, cheaper.body })
      assert.is_nil(cheaper.passed)
    end
    assert.equal(mostWaiting, waiting(world))
  end)
end)

for _, log in ipairs({ true, false }) do
  describe((log and "with" or "without") .. " sluice.log(), clients that go away while they wait", function()
    it("are no longer counted", function()
      for seed = 1, 3 do
        local world = worldWith({ log = log, seed = seed })
        local leaving = fill(world)
        assert.equal(200, atOnce(world, "leaky", "late").status)
        assert.equal(429, atOnce(world, "leaky", "late").status)
        for _, request in ipairs(leaving) do
          request.abort()
        end
        world.run(log and 5 or 250)
        assert.equal(0, waiting(world))
        -- As many may wait as before.
        local later = ask(world, "leaky", mostWaiting, { key = "late" })
        world.run(200)
        assert.same({ open = mostWaiting }, world.statuses(later))
        assert.equal(200, atOnce(world, "delayed", "late").status)
        assert.equal(503, atOnce(world, "delayed", "late").status)
        assert.same({}, world.errors)
      end
    end)

    it("free their turn for those behind them", function()
      local world = worldWith({ log = log })
      local first = ask(world, "quick", 1, { key = "one" })[1]
      world.run(5)
      assert.equal(200, first.status)
      local leaving = ask(world, "quick", 1, { key = "one" })[1]
      world.run(100)
      local behind = ask(world, "quick", 1, { key = "one" })[1]
      world.run(100)
      leaving.abort()
      world.run(2000)
      assert.equal(200, behind.status)
      local waitedMs = (behind.decidedUs - first.beganUs) / 1000
      assert.is_true(waitedMs >= 1000 and waitedMs <= (log and 1005 or 1250), tostring(waitedMs))
      support.assertQuiet(world)
    end)
  end)
end

describe("checks that wait", function()
  local own = { algorithm = "token-bucket", quota = 10, window = "1s", burst = 1 }
  local delays = { scope = "node", onLimit = { action = "delay", maxDelay = "5m", maxWaiting = 1000 } }

  local function worldWithCaller(published)
    local world = support.world({ environment = { SLUICE_MAX_WAITING = tostring(mostWaiting) } })
    world.publish(published, nil, { support.callerSha256 })
    world.run(50)
    return world
  end

  -- As many checks of the policy as may wait, each for a key whose units are used up.
  local function checkAll(world, name)
    for i = 1, mostWaiting do support.check(world, { { policy = name, key = { "k" .. i } } }) end
    world.run(50)
    for i = 1, mostWaiting do support.check(world, { { policy = name, key = { "k" .. i }, maxWait = "60s" } }) end
    world.run(500)
  end

  it("for a policy that is shared with their app have places of their app, and not of the policy's", function()
    local shared = policy("shared", bucket("1/60s", 1), { ofApp = "crm", sharedWith = { "shop" } })
    local world = worldWithCaller({ shared, policy("mine", bucket("1/60s", 1)), policy("theirs", own, support.with({ ofApp = "crm" }, delays)) })
    checkAll(world, "mine")
    checkAll(world, "crm/shared")
    assert.equal(mostWaiting, waiting(world))
    local requests = ask(world, "theirs", 2, { serviceUs = 0 })
    world.run(1000)
    assert.same({ [200] = 2 }, world.statuses(requests))
  end)

  it("for a policy of many limits have half of the places, as many as those for any other policy", function()
    local limits = { { name = "turn", algorithm = "leaky-bucket", quota = 1, window = "60s", burst = 100, maxDelay = "1h" } }
    for i = 2, 16 do limits[i] = support.with(fixed("100000/1h"), { name = "limit-" .. i }) end
    local world = worldWithCaller({ policy("many", nil, { limits = limits }), policy("mine", own, delays) })
    checkAll(world, "many")
    local places = world.workers[1].inner("gateway.src.charging.waiting-requests", "places")
    assert.equal(mostWaiting / 2, places.taken)
    local requests = ask(world, "mine", 2, { serviceUs = 0 })
    world.run(1000)
    assert.same({ [200] = 2 }, world.statuses(requests))
  end)
end)
