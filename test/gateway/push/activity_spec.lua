-- gateway/src/metrics/activity.ts: what workers report of their traffic for the control plane, and that they count keys within bounds.

local cjson = require("cjson")
local support = require("test.gateway.virtual.support")
local ask, bucket, fixed, policy = support.ask, support.bucket, support.fixed, support.policy

local node = { scope = "node" }
local leaky = { algorithm = "leaky-bucket", quota = 1, window = "1s", burst = 20, maxDelay = "1h" }
local policies = {
  policy("a", fixed("2/1h"), node),
  policy("shadow", fixed("1/1h"), { scope = "node", mode = "shadow" }),
  policy("leaky", leaky, node),
  policy("both", leaky, { scope = "node", onLimit = { action = "tag", header = "x-mark: over" } }),
  policy("waits", bucket("1/1s", 1), { scope = "node", onLimit = { action = "delay", maxDelay = "10s", maxWaiting = 10 } }),
  policy("cluster", fixed("1000/1h"), { scope = "cluster" }),
}

-- What workers report until they have nothing more: sums by policy, lists of keys, and the size of the longest report.
local function take(world)
  local sums, keys, longest = {}, {}, 0
  local worker = world.workers[1]
  repeat
    world.run(600)
    local texts
    worker.call(function()
      texts = worker.module("gateway.src.metrics.activity").takeActivity(1000000)
    end)
    for _, text in ipairs(texts) do
      longest = math.max(longest, #text)
      local report = cjson.decode(text)
      for _, counts in ipairs(report.policies) do
        local sum = sums[counts.policy] or { allowed = 0, refused = 0, shadowRefused = 0, delayed = 0, degraded = 0 }
        for what in pairs(sum) do
          sum[what] = sum[what] + counts[what]
        end
        sums[counts.policy] = sum
      end
      for _, list in ipairs(report.keys) do
        keys[#keys + 1] = list
      end
    end
  until #texts == 0
  return sums, keys, longest
end

local function counts(more)
  return support.with({ allowed = 0, refused = 0, shadowRefused = 0, delayed = 0, degraded = 0 }, more)
end

it("reports the decisions of each policy once, from all workers", function()
  local world = support.world({ workers = 2, policies = policies })
  ask(world, "a", 3)
  ask(world, "shadow", 3)
  ask(world, "a", 2, { worker = 2 })
  world.run(1500)
  local sums = take(world)
  assert.same(counts({ allowed = 2, refused = 3 }), sums.a)
  assert.same(counts({ allowed = 1, shadowRefused = 2 }), sums.shadow)
  world.run(1500)
  assert.same({}, (take(world)))
end)

it("counts requests that waited, on each of the ways that have them wait", function()
  local world = support.world({ policies = policies })
  ask(world, "leaky", 2)
  ask(world, "both", 3)
  ask(world, "waits", 2)
  world.run(5000)
  local sums = take(world)
  assert.same(counts({ allowed = 2, delayed = 1 }), sums.leaky)
  assert.same(counts({ allowed = 3, delayed = 2 }), sums.both)
  assert.same(counts({ allowed = 2, delayed = 1 }), sums.waits)
end)

it("counts requests that Redis did not decide", function()
  local world = support.world({ policies = policies })
  world.redis.kill()
  ask(world, "cluster", 2)
  world.run(1500)
  assert.same(counts({ allowed = 2, degraded = 2 }), (take(world)).cluster)
end)

it("keeps what nobody takes, and reports it together later", function()
  local world = support.world({ policies = policies })
  for _ = 1, 5 do
    ask(world, "a", 2)
    world.run(20000)
  end
  local sums = take(world)
  assert.equal(10, sums.a.allowed + sums.a.refused)
end)

it("reports keys after ten seconds, admitted and refused ones apart, and then counts anew", function()
  local world = support.world({ policies = policies })
  ask(world, "a", 3, { key = "ann" })
  ask(world, "a", 1, { key = "bob" })
  world.run(8000)
  local _, early = take(world)
  assert.same({}, early)
  world.run(2000)
  local _, keys = take(world)
  assert.equal(2, #keys)
  local byResult = {}
  for _, list in ipairs(keys) do
    byResult[list.result] = list
    assert.equal("a", list.policy)
    assert.same({ "header:x-key" }, list.key)
    assert.equal(0, list.error)
    assert.equal(0, list.unlisted)
  end
  local function count(result, key)
    for i, one in ipairs(byResult[result].keys) do
      if one == key then
        return byResult[result].counts[i]
      end
    end
  end
  assert.same({ 2, 1, 1, nil }, { count("admitted", "1:ann"), count("admitted", "1:bob"), count("refused", "1:ann"), count("refused", "1:bob") })
  world.run(15000)
  ask(world, "a", 1, { key = "bob" })
  world.run(11000)
  local _, later = take(world)
  assert.same({ { "1:bob" }, { 1 } }, { later[1].keys, later[1].counts })
end)

it("counts a client that was the only one of its policy together with those who came later", function()
  local free = policy("free", fixed("1000/1h"), node)
  local world = support.world({ policies = { free } })
  ask(world, "free", 3, { key = "ann" })
  ask(world, "free", 2, { key = "bob" })
  ask(world, "free", 1, { key = "ann" })
  world.run(12000)
  local _, keys = take(world)
  local count = {}
  for i, key in ipairs(keys[1].keys) do
    count[key] = keys[1].counts[i]
  end
  assert.same({ ["1:ann"] = 4, ["1:bob"] = 2 }, count)
  assert.equal(0, world.workers[1].inner("gateway.src.metrics.activity", "keysHeld"))
end)

it("names keys in UTF-8 whatever bytes they have", function()
  local world = support.world({ policies = policies })
  ask(world, "a", 1, { key = "\255é" })
  ask(world, "a", 1, { key = "é" })
  world.run(12000)
  local _, keys = take(world)
  table.sort(keys[1].keys)
  assert.same({ "1:???", "1:é" }, keys[1].keys)
end)

it("finds the frequent keys of a flood, in bounded memory and reports", function()
  local world = support.world({ policies = policies, keepRequests = false })
  for round = 1, 40 do
    for i = 1, 100 do
      ask(world, "a", 1, { key = ("once %d %d"):format(round, i) })
    end
    ask(world, "a", 2, { key = "often" })
    world.run(100)
  end
  world.run(8000)
  local _, keys, longest = take(world)
  assert.is_true(longest < 131072, longest)
  for _, list in ipairs(keys) do
    assert.is_true(#list.keys <= 100)
    assert.is_true(list.error <= 2 * 4080 / 512)
    if list.result == "refused" then
      assert.same({ "1:often" }, list.keys)
      assert.is_true(list.counts[1] <= 78 and list.counts[1] + list.error >= 78)
    end
  end
  assert.equal(0, world.workers[1].inner("gateway.src.metrics.activity", "keysHeld"))
end)

-- Policies p1, p2 … of this node, and a request to each.
local function many(count)
  local all = {}
  for i = 1, count do
    all[i] = policy("p" .. i, fixed("1000000/1h"), node)
  end
  return all
end

local function askAll(world, count)
  for i = 1, count do
    ask(world, "p" .. i, 1)
  end
end

it("reports all policies in turn, if there are more than a report has room for", function()
  local world = support.world({ policies = many(400), keepRequests = false })
  local seen, seenCount = {}, 0
  for _ = 1, 8 do
    askAll(world, 400)
    world.run(600)
    world.workers[1].call(function()
      for _, text in ipairs(world.workers[1].module("gateway.src.metrics.activity").takeActivity(1000000)) do
        for _, counts in ipairs(cjson.decode(text).policies) do
          seenCount = seenCount + (seen[counts.policy] and 0 or 1)
          seen[counts.policy] = true
        end
      end
    end)
  end
  assert.equal(400, seenCount)
end)

it("says of each policy since when it was counted, also after a long time without a control plane", function()
  local world = support.world({ policies = many(400), keepRequests = false })
  ask(world, "p1", 1)
  world.run(10000)
  askAll(world, 400)
  world.run(50000)
  local reports = 0
  repeat
    world.run(600)
    local texts
    world.workers[1].call(function()
      texts = world.workers[1].module("gateway.src.metrics.activity").takeActivity(1000000)
    end)
    for _, text in ipairs(texts) do
      local report = cjson.decode(text)
      reports = reports + (#report.policies > 0 and 1 or 0)
      for _, counts in ipairs(report.policies) do
        local ageMs = report.toMs - counts.fromMs
        assert.is_true(reports == 1 and ageMs < 1000 or ageMs >= 49000 and ageMs < 55000, ageMs)
      end
    end
  until #texts == 0
  assert.equal(4, reports)
end)

it("holds no more than what waits, also if something always waits", function()
  local world = support.world({ policies = policies, keepRequests = false })
  local worker = world.workers[1]
  local function held(module, name)
    local count = 0
    for _ in pairs(worker.inner("gateway.src.metrics." .. module, name).items) do
      count = count + 1
    end
    return count
  end
  for round = 1, 100 do
    ask(world, round % 2 == 0 and "a" or "shadow", 1)
    world.run(5000)
    worker.call(function()
      worker.module("gateway.src.metrics.activity").takeActivity(1000000)
    end)
  end
  assert.is_true(held("activity", "counted") <= 3)
  assert.is_true(held("activity", "unreportedInOrder") <= 3)
  assert.is_true(held("counts", "unflushed") <= 3)
end)

it("counts the keys of a policy together, whatever costs its requests state", function()
  local priced = policy("priced", fixed("100000000/1h"), { scope = "node", cost = { from = "header:x-cost", default = 1, max = 100000 } })
  local world = support.world({ policies = { priced }, keepRequests = false })
  for cost = 1, 2000 do
    world.workers[1].request({ uri = "/priced", variables = { http_x_key = "k", http_x_cost = tostring(cost) } })
  end
  world.run(12000)
  local sums, keys = take(world)
  assert.same(counts({ allowed = 2000 }), sums.priced)
  assert.equal(1, #keys)
  assert.same({ 2000 }, keys[1].counts)
end)

it("reports what a worker has counted when it ends, also keys", function()
  local world = support.world({ workers = 2, policies = policies })
  world.run(2000)
  ask(world, "a", 3, { worker = 2 })
  world.workers[2].quit()
  world.run(100)
  local sums, keys = take(world)
  assert.same(counts({ allowed = 2, refused = 1 }), sums.a)
  assert.equal(2, #keys)
end)
