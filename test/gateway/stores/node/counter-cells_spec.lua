-- gateway/src/stores/node/counter-cells.ts: some counters have several cells in the shared dict. Each counter writes only its own
-- cells. If nginx evicts one of them, the counter admits later than it might, and never more than it may.

local support = require("test.gateway.virtual.support")

local quota, windowUs = 1000, 60000000
local others = { "token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log" }

local function onNode(name, limit)
  return support.policy(name, support.with({ quota = quota, window = "60s" }, limit), { scope = "node" })
end

local function policies()
  local all = {
    onNode("sliding-log", { algorithm = "sliding-log" }),
    onNode("sliding-window", { algorithm = "sliding-window", precision = "60ms" }),
  }
  for _, algorithm in ipairs(others) do
    all[#all + 1] = onNode("other-" .. algorithm, { algorithm = algorithm })
  end
  return all
end

-- The numbers of the cells that hold this counter's entries, and "head" for its other cell.
local function cellsOf(world, key)
  local cells = {}
  for cell in pairs(world.dicts.sluice_counters.entries) do
    if cell:sub(-#key) == key then
      cells[#cells + 1] = cell:match("^(%d+):") or "head"
    end
  end
  table.sort(cells)
  return cells
end

-- Does what nginx does when it is short of memory and this cell is the least recently used.
local function evict(world, number, key)
  local evicted
  for cell in pairs(world.dicts.sluice_counters.entries) do
    if cell:sub(-#key) == key and (cell:match("^(%d+):") or "head") == number then
      assert(not evicted, "several cells have the number " .. number)
      evicted = cell
    end
  end
  world.dict("sluice_counters"):delete(assert(evicted, key .. " has no cell " .. number))
end

-- What several counters of a policy admitted, and when. The machine's clock goes on only where a spec says so.
local function newCounters(world, path, keys)
  local counters = { keys = keys, admittedAt = {}, odd = {} }
  for _, key in ipairs(keys) do
    counters.admittedAt[key] = {}
  end

  local function askEach()
    local any = false
    for _, key in ipairs(keys) do
      local request = support.ask(world, path, 1, { key = key, serviceUs = 0 })[1]
      world.run(0.001)
      local remaining = tonumber(request.headers["X-RateLimit-Remaining"])
      if not remaining or remaining < 0 or remaining >= quota then
        table.insert(counters.odd, ("%s: %s remaining"):format(key, remaining))
      end
      if request.status ~= 429 then
        any = true
        table.insert(counters.admittedAt[key], world.wallUs + request.decidedUs)
      end
    end
    return any
  end

  -- Asks each counter so many times, with a pause before each round.
  function counters.ask(times, pauseUs)
    for _ = 1, times do
      world.wallUs = world.wallUs + pauseUs
      askEach()
    end
  end

  -- Asks each counter until all refuse.
  function counters.drain()
    while askEach() do
    end
  end

  -- The most requests that were admitted in any window.
  function counters.most(key)
    local at, most, first = counters.admittedAt[key], 0, 1
    for last = 1, #at do
      while at[last] - at[first] >= windowUs do
        first = first + 1
      end
      most = math.max(most, last - first + 1)
    end
    return most
  end

  function counters.since(key, us)
    local count = 0
    for _, at in ipairs(counters.admittedAt[key]) do
      count = count + (at > us and 1 or 0)
    end
    return count
  end

  return counters
end

describe("a bucket", function()
  it("is kept until it is full, though nginx drops the part of a millisecond of a lifetime", function()
    local limit = { algorithm = "token-bucket", quota = 7, window = "1h", burst = 1 }
    local world = support.world({ redis = false, policies = { onNode("slow", limit) } })
    local fromMs = math.floor((world.wallUs + world.clock.nowUs) / 1000)
    support.ask(world, "slow", 1, { key = "a" })
    world.run(0.001)
    local _, entry = next(world.dicts.sluice_counters.entries)
    assert.is_true(entry.expiresMs - fromMs >= 514286, ("%d ms"):format(entry.expiresMs - fromMs))
  end)
end)

describe("a counter that is decided after one with many entries", function()
  it("writes only its own cells", function()
    local world = support.world({ redis = false, policies = policies() })
    local log = newCounters(world, "sliding-log", { "before" })
    log.ask(300, 10000)
    assert.same({ "1", "head" }, cellsOf(world, "before"))
    for _, algorithm in ipairs(others) do
      local key = "after-a-log-" .. algorithm
      newCounters(world, "other-" .. algorithm, { key }).ask(1, 0)
      assert.same({ "head" }, cellsOf(world, key), algorithm)
      -- This request changes the cells in the worker's room for entries again.
      log.ask(1, 10000)
    end
    support.assertQuiet(world)
  end)
end)

for _, kind in ipairs({ "sliding-log", "sliding-window" }) do
  describe("a " .. kind .. " that lost a cell of entries to eviction", function()
    it("admits no more than its quota in any window, and its full quota again a window later", function()
      local world = support.world({ redis = false, policies = policies() })
      -- The cell is evicted while the counter fills (it is the newest then), when the counter is full, or while its first entries
      -- expire.
      local early, full, late, keys = {}, {}, {}, {}
      for number = 1, 4 do
        if number <= 2 then
          early[number] = "early-" .. number
          keys[#keys + 1] = early[number]
        end
        full[number], late[number] = "full-" .. number, "late-" .. number
        keys[#keys + 1] = full[number]
        keys[#keys + 1] = late[number]
      end
      local function evictAll(of)
        for number, key in ipairs(of) do
          evict(world, tostring(number), key)
        end
      end
      local counters = newCounters(world, kind, keys)
      -- From a whole minute on.
      world.wallUs = world.wallUs + windowUs - (world.wallUs + world.clock.nowUs) % windowUs
      local stepUs = 60000
      counters.ask(600, stepUs)
      evictAll(early)
      counters.ask(400, stepUs)
      -- This is just before the first unit comes back.
      counters.ask(1, windowUs - 1000 * stepUs - 10000 + stepUs)
      for number = 1, 4 do
        local cells = kind == "sliding-log" and { "1", "2", "3", "4", "head" } or { "0", "1", "2", "3", "4", "head" }
        assert.same(cells, cellsOf(world, full[number]))
        assert.same(cells, cellsOf(world, late[number]))
      end
      evictAll(full)
      counters.ask(100, stepUs)
      evictAll(late)
      counters.ask(150, 3 * stepUs)
      counters.ask(12, 5000000)
      counters.drain()
      for _, key in ipairs(keys) do
        assert.is_true(counters.most(key) <= quota, ("%s: %d"):format(key, counters.most(key)))
      end
      local silentSinceUs = world.wallUs + world.clock.nowUs
      world.wallUs = world.wallUs + windowUs + 60000
      counters.drain()
      for _, key in ipairs(keys) do
        assert.equal(quota, counters.since(key, silentSinceUs), key)
      end
      assert.same({}, counters.odd)
      support.assertQuiet(world)
    end)
  end)

  describe("a " .. kind .. " that lost its head to eviction", function()
    it("has forgotten everything and starts anew", function()
      local world = support.world({ redis = false, policies = policies() })
      local counters = newCounters(world, kind, { "headless" })
      counters.ask(600, 60000)
      counters.drain()
      assert.equal(quota, counters.since("headless", 0))
      evict(world, "head", "headless")
      counters.drain()
      assert.equal(2 * quota, counters.since("headless", 0))
      support.assertQuiet(world)
    end)
  end)
end
