-- Tests what the Redis scripts store, and how long Redis keeps it: all counters of a group are charged, or none.

local product = require("test.gateway.product")

local startUs = 1700000000000000
local second = 1000000
local bucket = { algorithm = "token-bucket", quota = 2, windowUs = second, burst = 10 }
local sliding = { algorithm = "sliding-window", quota = 3, windowUs = second, burst = 3, precisionUs = 100000 }
local log = { algorithm = "sliding-log", quota = 50, windowUs = second, burst = 50 }
local daily = { algorithm = "fixed-window", quota = 3, windowUs = 86400 * second, burst = 3 }

local function ask(redis, ...)
  local keys, argv = {}, {}
  for i, check in ipairs({ ... }) do
    keys[i] = check.key
    for _, argument in ipairs(product.scriptArguments(check.limit, check.cost or 1)) do
      argv[#argv + 1] = argument
    end
  end
  return redis.charge(keys, argv)
end

describe("the script that Redis runs", function()
  local redis

  -- Returns a counter as it is stored.
  local function stored(atUs, count)
    return redis.struct.pack("<dd", atUs, count)
  end

  local function storedBucket(atUs, count, fillsInUs)
    return redis.struct.pack("<ddd", atUs, count, fillsInUs)
  end

  before_each(function()
    redis = product.newRedis()
    redis.nowUs = startUs
  end)

  it("charges all counters of a group when all allow", function()
    local reply = ask(redis, { key = "a", limit = bucket, cost = 4 }, { key = "b", limit = daily, cost = 2 })
    assert.same({ 1, 1, 6, 0, 2000000, 0, 1700000002000000, 1, 1, 0, 6400000000, 0, 1699920000000000 }, reply)
    assert.same({ a = storedBucket(1700000002000000, 0, 5 * second), b = stored(1699920000000000, 2) }, redis.keys)
  end)

  it("charges none of a group when one refuses, and reports which", function()
    ask(redis, { key = "b", limit = daily, cost = 3 })
    local before = redis.keys.b
    local reply = ask(redis, { key = "a", limit = bucket }, { key = "b", limit = daily })
    assert.equal(0, reply[1])
    assert.same({ 1, 10, 0, 0, 0, 0 }, { unpack(reply, 2, 7) })
    assert.same({ 0, 0, 6400000000, 6400000000, 0, 1699920000000000 }, { unpack(reply, 8, 13) })
    assert.same({ b = before }, redis.keys)
  end)

  it("keeps a bucket until it is full again, rounded up to the ms", function()
    ask(redis, { key = "a", limit = bucket, cost = 3 })
    assert.equal("1501", redis.px.a)
  end)

  it("keeps a window for two of its length", function()
    ask(redis, { key = "b", limit = daily })
    assert.equal("172800000", redis.px.b)
  end)

  it("keeps a debt of ages for a hundred years", function()
    ask(redis, { key = "a", limit = { algorithm = "token-bucket", quota = 1, windowUs = 366 * 86400 * second, burst = 2 ^ 31 }, cost = 1000 })
    assert.equal("3155760000000", redis.px.a)
  end)

  it("stores a clock's step back although it refuses, so that the bucket refills from then on", function()
    ask(redis, { key = "a", limit = bucket, cost = 10 })
    redis.nowUs = startUs - 3600 * second
    assert.equal(0, ask(redis, { key = "a", limit = bucket })[1])
    assert.equal(storedBucket(1699996405000000, 0, 5 * second), redis.keys.a)
    redis.nowUs = redis.nowUs + 500000
    assert.equal(1, ask(redis, { key = "a", limit = bucket })[1])
  end)

  it("keeps a sliding counter until its newest block has left the window, and a block more", function()
    ask(redis, { key = "a", limit = sliding, cost = 2 })
    assert.equal(stored(1700000000000000, 2), redis.keys.a)
    assert.equal("1200", redis.px.a)
    redis.nowUs = startUs + 50000
    ask(redis, { key = "a", limit = sliding })
    assert.equal(stored(1700000000000000, 3), redis.keys.a)
    assert.equal("1150", redis.px.a)
  end)

  it("packs the units of earlier ticks behind the head, in 8 bytes an entry", function()
    for i = 0, 40 do
      redis.nowUs = startUs + i * 10
      assert.equal(1, ask(redis, { key = "a", limit = log })[1])
    end
    assert.equal(stored(1700000000000400, 41), redis.keys.a:sub(1, 16))
    local capacity = redis.keys.a:byte(25)
    assert.is_true(capacity >= 40)
    assert.equal(16 + 20 + 8 * capacity, #redis.keys.a)
    assert.equal("1001", redis.px.a)
  end)

  it("keeps a counter with debt until it is paid and a lifetime more, and its debt until it is paid", function()
    local chargeDeferred = function(units)
      return redis.run("charge_deferred", { "b", "b:debt" }, product.scriptArguments(daily, units))
    end
    -- The limit is 3 a day, and the day has 6400 s left.
    assert.same({ 0, 0, 92800000000, 92800000000, 3 }, chargeDeferred(6))
    assert.same({ b = stored(1700006400000000, 3), ["b:debt"] = "1700006400000000 1700000000000000 3" }, redis.keys)
    assert.same({ b = "179200000", ["b:debt"] = "6400000" }, redis.px)
    assert.same({ 0, 0, 92800000000, 179200000000, 2 }, chargeDeferred(2))
    assert.equal(stored(1700092800000000, 2), redis.keys.b)
    assert.same({ b = "265600000", ["b:debt"] = "92800000" }, redis.px)
  end)

  it("writes nothing for zero units", function()
    local keys = { "b", "b:debt" }
    assert.same({ 1, 3, 0, 6400000000, 0 }, redis.run("charge_deferred", keys, product.scriptArguments(daily, 0)))
    assert.same({}, redis.keys)
    redis.run("charge_deferred", keys, product.scriptArguments(daily, 4))
    local before = redis.keys.b
    assert.same({ 0, 0, 6400000000, 92800000000, 0 }, redis.run("charge_deferred", keys, product.scriptArguments(daily, 0)))
    assert.equal(before, redis.keys.b)
  end)

  it("refunds units, and keeps the rest no longer than before", function()
    local reply = ask(redis, { key = "a", limit = sliding, cost = 3 })
    redis.nowUs = startUs + 300000
    local argv = product.scriptArguments(sliding, 2)
    argv[6] = ("%.0f"):format(reply[7])
    assert.equal(1, redis.run("refund", { "a" }, argv))
    assert.equal(stored(1700000000000000, 1), redis.keys.a)
    assert.equal("900", redis.px.a)
  end)

  describe("for gateways that hold two sizes of one bucket", function()
    local large = { algorithm = "token-bucket", quota = 100, windowUs = 100 * second, burst = 100 }
    local small = { algorithm = "token-bucket", quota = 50, windowUs = 100 * second, burst = 1 }

    local function admits(limit, cost)
      return ask(redis, { key = "a", limit = limit, cost = cost })[1] == 1
    end

    it("keeps what the smaller one forgives, for the larger one", function()
      assert.is_true(admits(large, 100))
      assert.is_false(admits(small))
      assert.is_false(admits(large))
      assert.equal("100001", redis.px.a)
      -- The smaller one is empty since it was asked.
      redis.nowUs = redis.nowUs + 2 * second
      assert.is_true(admits(small))
      assert.is_false(admits(large))
      redis.nowUs = redis.nowUs + second
      assert.is_true(admits(large))
    end)

    it("forgets all that a clock's step back left, for both", function()
      assert.is_true(admits(large, 100))
      redis.nowUs = startUs - 3600 * second
      assert.is_false(admits(small))
      assert.equal("2001", redis.px.a)
      redis.nowUs = redis.nowUs + 2 * second
      assert.is_true(admits(large, 98))
    end)

    it("does not owe again what it forgave itself", function()
      assert.is_true(admits(large, 100))
      assert.is_false(admits(small))
      redis.nowUs = redis.nowUs + 2 * second
      for _ = 1, 3 do
        assert.is_true(admits(small))
        redis.nowUs = redis.nowUs + 2 * second
      end
    end)

    it("gives gateways that take turns no more than the largest size alone would", function()
      math.randomseed(40)
      local kinds = { "token-bucket", "leaky-bucket", "shaped" }
      for life = 1, 200 do
        local kind, sizes, longestUs = kinds[1 + life % 3], {}, 0
        local windowUs = second * math.random(1, 200)
        for i = 1, math.random(2, 4) do
          local quota, burst = math.random(1, 200), math.random(1, 100)
          local size = { algorithm = kind, quota = quota, windowUs = windowUs, burst = burst }
          if kind == "shaped" then
            size.algorithm = "shaped-bucket"
            size.burst = burst
            size.text = ("%d/%d/0"):format(burst, math.random(0, burst))
          end
          size.room = kind == "leaky-bucket" and burst + 1 or burst
          sizes[i] = size
          longestUs = math.max(longestUs, size.room * windowUs / quota)
        end
        redis = product.newRedis()
        redis.nowUs = startUs
        local chargedUs, charges, charged = 0, 0, {}
        for _ = 1, 150 do
          local size = sizes[math.random(#sizes)]
          local cost = math.random(size.room)
          redis.nowUs = redis.nowUs + math.random(0, math.random(4) == 1 and math.floor(longestUs / 20) or 1000)
          local argv = { size.algorithm, ("%d"):format(size.quota), ("%d"):format(size.windowUs), size.text or ("%d"):format(size.burst), ("%d"):format(cost) }
          local reply = redis.charge({ "a" }, argv)
          if reply[1] == 1 then
            chargedUs = chargedUs + cost * size.windowUs / size.quota
            charges = charges + 1
            argv[6] = ("%.0f"):format(reply[7])
            charged[#charged + 1] = { argv = argv, us = cost * size.windowUs / size.quota }
          end
          -- Each size refunds what it has charged, now or later.
          if #charged > 0 and math.random(8) == 1 then
            local one = table.remove(charged, math.random(#charged))
            redis.run("refund", { "a" }, one.argv)
            chargedUs = chargedUs - one.us
          end
        end
        -- A turn may drop the part of a µs that a quota does not know.
        assert.is_true(chargedUs <= longestUs + (redis.nowUs - startUs) + charges, ("life %d"):format(life))
        assert.is_true(charges > 0)
      end
    end)
  end)
end)
