-- gateway/src/check-api/results.ts: how long a check says that it has waited.

local cjson = require("cjson")
local support = require("test.gateway.virtual.support")
local bucket, fixed, policy = support.bucket, support.fixed, support.policy

local onNode = { scope = "node" }
local turns = { algorithm = "leaky-bucket", quota = 10, window = "1s", burst = 5 }
local slots = { algorithm = "concurrency", quota = 1, ttl = "60s" }

local function worldOfWaiting()
  local world = support.world({ workers = 1 })
  world.publish({
    policy("bucket", bucket("10/1s", 1), onNode),
    policy("year", fixed("1/1d"), onNode),
    policy("turns", turns, onNode),
    policy("slots", slots, onNode),
    policy("watched", bucket("10/1s", 1), { scope = "node", mode = "shadow" }),
  }, nil, { support.callerSha256 })
  world.run(50)
  return world
end

-- Returns what the check hears, and within how many ms.
local function answer(world, name, more)
  local asked = support.check(world, { support.with({ policy = name, key = { "k" } }, more or {}) })
  world.run(5000)
  return cjson.decode(asked.body).results[1]
end

describe("a check with maxWait says how long it has waited", function()
  local world
  before_each(function()
    world = worldOfWaiting()
  end)

  it("for its units: nothing, a tenth of a second", function()
    local asked = {}
    for i = 1, 3 do
      asked[i] = support.check(world, { { policy = "bucket", key = { "k" }, maxWait = "1s" } })
    end
    world.run(5000)
    local waited = {}
    for i, each in ipairs(asked) do
      waited[i] = cjson.decode(each.body).results[1].waited
    end
    assert.equal(0, waited[1])
    assert.is_true(waited[2] >= 0.1 and waited[2] <= 0.103, tostring(waited[2]))
    assert.is_true(waited[3] >= 0.2 and waited[3] <= 0.205, tostring(waited[3]))
    assert.is_truthy(asked[3].body:find('"waited":0.20?%d?}', 1))
  end)

  it("for the turn of a leaky-bucket, which has no delay then", function()
    assert.equal(0, answer(world, "turns", { maxWait = "1s" }).waited)
    local first = support.check(world, { { policy = "turns", key = { "two" }, maxWait = "1s" } })
    local second = support.check(world, { { policy = "turns", key = { "two" }, maxWait = "1s" } })
    world.run(1000)
    assert.equal(0, cjson.decode(first.body).results[1].waited)
    local result = cjson.decode(second.body).results[1]
    assert.same({ true, 0.1, nil }, { result.allowed, result.waited, result.delay })
  end)

  it("in vain: its whole time, or none if that cannot help", function()
    answer(world, "year")
    local far = answer(world, "year", { maxWait = "60s" })
    assert.same({ false, 0 }, { far.allowed, far.waited })
    support.callerPosts(world, "hold", { policy = "slots", key = { "k" } })
    local asked = support.callerPosts(world, "hold", { policy = "slots", key = { "k" }, maxWait = "300ms" })
    world.run(1000)
    local result = cjson.decode(asked.body)
    assert.is_false(result.allowed)
    assert.is_true(result.waited >= 0.28 and result.waited <= 0.31, tostring(result.waited))
  end)

  it("also of a hold that gets its slots, and without a decision by limits", function()
    local held = support.callerPosts(world, "hold", { policy = "slots", key = { "line" } })
    world.run(10)
    local asked = support.callerPosts(world, "hold", { policy = "slots", key = { "line" }, maxWait = "1s" })
    world.run(200)
    support.callerPosts(world, "release", { hold = cjson.decode(held.body).hold })
    world.run(1000)
    local result = cjson.decode(asked.body)
    assert.is_true(result.allowed)
    assert.is_true(result.waited >= 0.2 and result.waited <= 0.22, tostring(result.waited))
    assert.same({ "shadow", 0 }, { answer(world, "watched", { maxWait = "1s" }).reason, answer(world, "watched", { maxWait = "1s" }).waited })
  end)

  it("and no other check does", function()
    assert.is_nil(answer(world, "bucket").waited)
    assert.is_nil(answer(world, "bucket", { peek = true }).waited)
    assert.is_nil(cjson.decode(support.callerPosts(world, "hold", { policy = "slots", key = { "none" } }).body).waited)
  end)
end)
